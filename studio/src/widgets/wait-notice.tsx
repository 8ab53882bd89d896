import type { Failure } from '../server/failure.ts'
import { Button } from './button.tsx'
import { Notice } from './notice.tsx'

interface WaitNoticeProps {
  readonly seconds: number
  /** Why the page waits. */
  readonly failure: Failure | null
  onCancel(): void
}

/** The page waits for the server and goes on by itself. */
export function WaitNotice({ seconds, failure, onCancel }: WaitNoticeProps) {
  return (
    <Notice tone="wait" actions={<Button onClick={onCancel}>Cancel</Button>}>
      {failure?.kind === 'offline' ? (
        'The server does not answer. This goes on as soon as it is back.'
      ) : (
        <>
          {failure?.status === 429 ? 'The limit of requests is reached.' : 'The server is busy.'} Trying again in{' '}
          {/* Read out once, not each second. */}
          <span aria-hidden="true">
            {seconds} {seconds === 1 ? 'second' : 'seconds'}
          </span>
          <span class="hidden">a moment</span>.
        </>
      )}
    </Notice>
  )
}
