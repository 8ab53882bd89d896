import { type Wait, waitText } from '../../server/patience.ts'
import { Button } from '../button.tsx'
import { Notice } from './notice.tsx'

interface WaitNoticeProps {
  readonly wait: Wait
  onCancel(): void
}

/** The page waits for the server and goes on by itself. */
export function WaitNotice({ wait, onCancel }: WaitNoticeProps) {
  const [shown, spoken] = [waitText(wait), waitText(wait, true)]
  return (
    <Notice tone="wait" actions={<Button onClick={onCancel}>Cancel</Button>}>
      {/* Seconds are read out once, not each second. */}
      {shown === spoken ? (
        shown
      ) : (
        <>
          <span aria-hidden="true">{shown}</span>
          <span class="hidden">{spoken}</span>
        </>
      )}
    </Notice>
  )
}
