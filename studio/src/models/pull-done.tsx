import { Button } from '../widgets/button.tsx'
import { Notice } from '../widgets/notices/notice.tsx'
import { closePull, pullState, showsPull, usePulled } from './pull.ts'

/** What came of a pull. */
export function PullDone() {
  const state = pullState.value
  if (state.step !== 'done') return null
  const { id, reason } = state
  if (reason !== null) {
    return (
      <Notice tone="wait" actions={<Button onClick={closePull}>Close</Button>}>
        <code>{id}</code> was fetched and cannot be used. {reason}
      </Notice>
    )
  }
  return (
    <Notice
      actions={
        <>
          <Button kind="primary" onClick={() => void usePulled(id)}>
            Use it
          </Button>
          <Button kind="quiet" onClick={closePull}>
            Close
          </Button>
        </>
      }
    >
      <code>{id}</code> is ready. It loads on first use.
    </Notice>
  )
}

/** The same for a user who went on with something else. */
export function PullNotice() {
  return showsPull() ? null : <PullDone />
}
