import { useKey } from '../server/connection.ts'
import type { Failure } from '../server/failure.ts'
import { Button } from './button.tsx'
import { Notice } from './notice.tsx'

/** Why there is no answer, and the way on. The draft stays where it is. */
export function FailureNotice({ failure, onRetry }: { readonly failure: Failure; readonly onRetry: () => void }) {
  const retry = (
    <Button kind="plain" onClick={onRetry}>
      Try again
    </Button>
  )
  const newKey = (
    <Button icon="key" onClick={() => useKey(null)}>
      Enter a key
    </Button>
  )
  return (
    <Notice tone="error" actions={failure.kind === 'key' ? newKey : retry}>
      {failure.message}
      {failure.param && (
        <>
          {' '}
          <code>{failure.param}</code>
        </>
      )}
    </Notice>
  )
}
