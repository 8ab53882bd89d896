import { attachments, select } from '../media/attachments.ts'
import { waitText } from '../server/patience.ts'
import { Button } from '../widgets/button.tsx'
import { FailureNotice } from '../widgets/notices/failure-notice.tsx'
import { Notice } from '../widgets/notices/notice.tsx'
import { counted } from '../widgets/quantities.ts'
import { undo } from './results.ts'
import { search, startSearch, stopSearch } from './search.ts'

/** How far the search is, and the way on when it stopped. */
export function SearchProgress() {
  const state = search.value
  if (state === null) return null
  const { status, total, left, wait, failures, replacedEdits } = state
  const done = total - left.length
  return (
    <>
      {status === 'running' && (
        <div class="progress">
          <span role="status">
            {wait === null
              ? `${total > 1 ? `${done + 1} of ${total}: ` : 'Searching '}${left[0]?.name ?? ''}`
              : waitText(wait)}
          </span>
          <Button kind="quiet" icon="stop" onClick={stopSearch}>
            Stop
          </Button>
          {total > 1 ? (
            <progress aria-label="Pictures searched" value={done} max={total} />
          ) : (
            <progress aria-label="Searching" />
          )}
        </div>
      )}
      {status === 'stopped' && failures.length === 0 && total > 1 && (
        <Notice actions={<Button onClick={() => void startSearch(left)}>Go on</Button>}>
          Stopped after {done} of {total} pictures.
        </Notice>
      )}
      {failures
        .filter(({ picture }) => isOnStage(picture.id))
        .map(({ picture, failure }) => (
          <div key={picture.id}>
            {total > 1 && (
              <Button kind="quiet" onClick={() => select(picture.id)}>
                {picture.name}
              </Button>
            )}
            <FailureNotice
              failure={failure}
              onRetry={(without) => {
                const rest = status === 'stopped' ? left.filter(({ id }) => id !== picture.id) : []
                if (without?.id !== picture.id) void startSearch([picture, ...rest])
                // One that has not stopped goes on by itself without the picture.
                else if (rest.length > 0) void startSearch(rest)
              }}
            />
          </div>
        ))}
      {status === 'done' && total === 1 && replacedEdits > 0 && (
        <Notice
          actions={
            <Button
              icon="undo"
              onClick={() => {
                undo()
                search.value = null
              }}
            >
              Undo
            </Button>
          }
        >
          The new result took the place of {counted(replacedEdits, 'edit')}.
        </Notice>
      )}
    </>
  )
}

function isOnStage(id: string): boolean {
  return attachments.value.some((one) => one.id === id)
}
