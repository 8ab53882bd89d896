import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { IconButton } from '../button.tsx'
import { useModal } from './modal.ts'

interface DialogProps {
  readonly title: string
  readonly class?: string
  readonly children: ComponentChildren
  onClose(): void
}

/** A dialog over the page. Escape and a click beside it close it, and the focus returns to where it was. */
export function Dialog({ title, class: own = '', children, onClose }: DialogProps) {
  const dialog = useModal()
  const id = useId()
  return (
    <dialog
      ref={dialog}
      class={own}
      aria-labelledby={id}
      onClose={onClose}
      onPointerDown={(event) => {
        if (event.target === dialog.current) dialog.current?.close()
      }}
    >
      <div class="dialog-body">
        <header class="dialog-head">
          <h2 id={id}>{title}</h2>
          <IconButton icon="close" label="Close" onClick={() => dialog.current?.close()} />
        </header>
        {children}
      </div>
    </dialog>
  )
}
