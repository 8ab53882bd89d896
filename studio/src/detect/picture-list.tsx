import { useEffect, useRef } from 'preact/hooks'
import { select, selected } from '../media/attachments.ts'
import { Button, IconButton } from '../widgets/button.tsx'
import { Icon } from '../widgets/icon.tsx'
import { keepInView } from '../widgets/keep-in-view.ts'
import { accept, reviewedCount, showNeighbour } from './labelling.ts'
import { results, setReviewed } from './results.ts'
import { search } from './search.ts'
import { searchable, shownImage } from './targets.ts'

/** The way through several pictures: how much was found on each, and which are reviewed. */
export function PictureList() {
  const list = useRef<HTMLUListElement>(null)
  const current = selected.value?.id
  useEffect(() => keepInView(list.current?.querySelector('[aria-current]')), [current])
  if (searchable.value.length < 2 || results.value.size === 0) return null
  const waiting = search.value?.status === 'running' ? search.value.left.map(({ id }) => id) : []
  const isReviewed = current !== undefined && results.value.get(current)?.isReviewed === true
  const index = searchable.value.findIndex(({ id }) => id === current)
  return (
    <section class="review" aria-label="Review">
      <div class="review-bar">
        <IconButton icon="back" label="Previous picture (A)" disabled={index < 1} onClick={() => showNeighbour(-1)} />
        <IconButton
          icon="forward"
          label="Next picture (D)"
          disabled={index === searchable.value.length - 1}
          onClick={() => showNeighbour(1)}
        />
        <p class="count">
          {reviewedCount.value} of {searchable.value.length} reviewed
        </p>
        <Button
          icon="check"
          pressed={isReviewed}
          disabled={index < 0}
          title={isReviewed ? 'It is reviewed. Take that back' : 'It is right: go on to the next picture (S)'}
          onClick={isReviewed ? () => setReviewed(shownImage.value!.id, false) : accept}
        >
          Accept
        </Button>
      </div>
      <ul ref={list} class="pictures" aria-label="Pictures">
        {searchable.value.map(({ id, name }) => (
          <li key={id}>
            <button type="button" aria-current={current === id ? 'true' : undefined} onClick={() => select(id)}>
              <span>{name}</span>
              {results.value.get(id)?.isReviewed && (
                <span class="reviewed" title="Reviewed">
                  <Icon name="check" size={14} />
                  <span class="hidden">reviewed</span>
                </span>
              )}
              <span class="count">{waiting.includes(id) ? '…' : (results.value.get(id)?.spots.length ?? '–')}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  )
}
