import { select, selected } from '../media/attachments.ts'
import { results } from './results.ts'
import { search } from './search.ts'
import { searchable } from './targets.ts'

/** How much was found on each of several pictures. */
export function PictureList() {
  if (searchable.value.length < 2 || results.value.size === 0) return null
  const waiting = search.value?.status === 'running' ? search.value.left.map(({ id }) => id) : []
  return (
    <ul class="pictures" aria-label="Pictures">
      {searchable.value.map(({ id, name }) => (
        <li key={id}>
          <button
            type="button"
            aria-current={selected.value?.id === id ? 'true' : undefined}
            onClick={() => select(id)}
          >
            <span>{name}</span>
            <span class="count">{waiting.includes(id) ? '…' : (results.value.get(id)?.spots.length ?? '–')}</span>
          </button>
        </li>
      ))}
    </ul>
  )
}
