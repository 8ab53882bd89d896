import type { ComponentChildren } from 'preact'

interface NoticeProps {
  readonly tone?: 'error' | 'wait' | 'info'
  readonly children: ComponentChildren
  /** Buttons: the way on. */
  readonly actions?: ComponentChildren
}

/** A sentence that a person needs now, with the way on. Errors are read out at once. */
export function Notice({ tone = 'info', children, actions }: NoticeProps) {
  return (
    <div class={`notice ${tone}`} role={tone === 'error' ? 'alert' : 'status'}>
      <div>{children}</div>
      {actions && <div class="notice-actions">{actions}</div>}
    </div>
  )
}
