import type { ComponentChildren } from 'preact'
import { Icon, type IconName } from './icon.tsx'

interface ButtonProps {
  readonly children: ComponentChildren
  readonly icon?: IconName
  readonly kind?: 'plain' | 'primary' | 'quiet' | 'danger'
  readonly type?: 'button' | 'submit'
  readonly disabled?: boolean
  readonly title?: string
  readonly pressed?: boolean
  readonly onClick?: (event: MouseEvent) => void
}

export function Button({ children, icon, kind = 'plain', type = 'button', pressed, ...rest }: ButtonProps) {
  return (
    <button type={type} class={`button ${kind}`} aria-pressed={pressed} {...rest}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  )
}

interface IconButtonProps {
  readonly icon: IconName
  readonly label: string
  readonly onClick: (event: MouseEvent) => void
  readonly disabled?: boolean
  readonly pressed?: boolean
}

/** A button that shows only an icon; the label is its name and its tooltip. */
export function IconButton({ icon, label, pressed, ...rest }: IconButtonProps) {
  return (
    <button type="button" class="icon-button" aria-label={label} aria-pressed={pressed} title={label} {...rest}>
      <Icon name={icon} />
    </button>
  )
}
