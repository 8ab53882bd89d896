import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { Button } from '../button.tsx'
import { useModal } from './modal.ts'

interface ConfirmDialogProps {
  readonly title: string
  readonly children: ComponentChildren
  /** What the button says that does it. */
  readonly action: string
  onConfirm(): void
  /** Called after either choice, when the dialog is gone; the focus is back where it was. */
  onClose(): void
}

/** Asks before something is lost. The focus is on the button that keeps it. */
export function ConfirmDialog({ title, children, action, onConfirm, onClose }: ConfirmDialogProps) {
  const dialog = useModal()
  const id = useId()
  return (
    <dialog ref={dialog} role="alertdialog" aria-labelledby={id} aria-describedby={`${id}-text`} onClose={onClose}>
      <form method="dialog">
        <h2 id={id}>{title}</h2>
        <div id={`${id}-text`}>{children}</div>
        <div class="confirm-actions">
          <Button type="submit">Keep it</Button>
          <Button
            kind="danger"
            icon="trash"
            onClick={() => {
              onConfirm()
              dialog.current?.close()
            }}
          >
            {action}
          </Button>
        </div>
      </form>
    </dialog>
  )
}
