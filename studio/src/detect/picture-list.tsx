import { useEffect, useRef } from 'preact/hooks'
import { select, selected } from '../media/attachments.ts'
import { Button, IconButton } from '../widgets/button.tsx'
import { Icon } from '../widgets/icon.tsx'
import { keepInView } from '../widgets/keep-in-view.ts'
import { accept, reviewedCount, showNeighbour } from './labelling/labelling.ts'
import { results, setReviewed } from './results.ts'
import { search } from './search.ts'
import { sureSpots } from './sureness.ts'
import { searchable, shownImage } from './targets.ts'

/** The way through several pictures, by the pointer. */
export function ReviewBar() {
  const count = searchable.value.length
  if (count < 2 || results.value.size === 0) return null
  const index = searchable.value.findIndex(({ id }) => id === shownImage.value?.id)
  const id = searchable.value[index]?.id
  const isReviewed = id !== undefined && results.value.get(id)?.isReviewed === true
  return (
    <div class="review-bar">
      <IconButton icon="back" label="Previous picture (A)" disabled={index < 1} onClick={() => showNeighbour(-1)} />
      <IconButton
        icon="forward"
        label="Next picture (D)"
        disabled={index === count - 1}
        onClick={() => showNeighbour(1)}
      />
      <p class="count">
        {reviewedCount.value} of {count} reviewed
      </p>
      <Button
        icon="check"
        pressed={isReviewed}
        disabled={id === undefined}
        title={isReviewed ? 'Reviewed. Undo the review' : 'Accept it and go to the next picture (S)'}
        onClick={isReviewed ? () => setReviewed(id, false) : accept}
      >
        Accept
      </Button>
    </div>
  )
}

/** How much was found on each of several pictures, and which are reviewed. */
export function PictureList() {
  const list = useRef<HTMLUListElement>(null)
  const current = selected.value?.id
  useEffect(() => keepInView(list.current?.querySelector('[aria-current]'), list.current), [current])
  if (searchable.value.length < 2 || results.value.size === 0) return null
  const waiting = search.value?.status === 'running' ? search.value.left.map(({ id }) => id) : []
  return (
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
            <span class="count">
              {waiting.includes(id) ? '…' : results.value.has(id) ? sureSpots(results.value.get(id)).length : '–'}
            </span>
          </button>
        </li>
      ))}
    </ul>
  )
}
