import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { key, rejectedKey, useKey } from '../server/connection.ts'
import type { Failure } from '../server/failure.ts'
import { loadModels } from '../server/load-models.ts'
import { Button } from './button.tsx'
import { Notice } from './notice.tsx'

interface FailureNoticeProps {
  readonly failure: Failure
  /** Further ways on. */
  readonly actions?: ComponentChildren
  onRetry(): void
}

/** Why there is no answer, and the way on. The draft stays where it is. After another key was entered, it goes on by itself. */
export function FailureNotice({ failure, actions, onRetry }: FailureNoticeProps) {
  const needsKey = failure.kind === 'key' && (key.value === null || key.value === rejectedKey.value)
  const needed = useRef(false)
  useEffect(() => {
    if (needsKey) needed.current = true
    else if (needed.current) {
      needed.current = false
      onRetry()
    }
  }, [needsKey])
  return (
    <Notice
      tone="error"
      actions={
        <>
          {actions}
          {failure.code === 'model_not_found' && (
            <Button onClick={() => void loadModels()}>Look for models again</Button>
          )}
          {needsKey ? (
            <Button icon="key" onClick={() => useKey(null)}>
              Enter a key
            </Button>
          ) : (
            <Button onClick={onRetry}>Try again</Button>
          )}
        </>
      }
    >
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
