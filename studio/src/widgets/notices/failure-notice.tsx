import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { remove } from '../../media/attachments.ts'
import { key, model, rejectedKey, useKey } from '../../server/connection.ts'
import type { Failure, MediaAtFault } from '../../server/failure.ts'
import { loadModels } from '../../server/load-models.ts'
import { Button } from '../button.tsx'
import { Notice } from './notice.tsx'

interface FailureNoticeProps {
  readonly failure: Failure
  /** Further ways on. */
  readonly actions?: ComponentChildren
  /** @param without the file at fault, which is off the stage by then. */
  onRetry(without?: MediaAtFault): void
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
  const { media } = failure
  const isGone = failure.kind === 'gone'
  // The model was deleted elsewhere, without notice to this page.
  useEffect(() => {
    if (isGone) void loadModels()
  }, [failure])
  const other =
    isGone && model.value !== null && !failure.message.includes(`'${model.value.id}'`) ? model.value.id : null
  return (
    <Notice
      tone="error"
      actions={
        <>
          {actions}
          {media !== null && (
            <Button
              icon="close"
              onClick={() => {
                remove(media.id)
                onRetry(media)
              }}
            >
              Go on without it
            </Button>
          )}
          {needsKey ? (
            <Button icon="key" onClick={() => useKey(null)}>
              Enter a key
            </Button>
          ) : (
            <Button onClick={() => onRetry()}>{other === null ? 'Try again' : `Ask ${other}`}</Button>
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
