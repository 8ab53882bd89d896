import { useId } from 'preact/hooks'

interface TextFieldProps {
  readonly label: string
  readonly value: string
  readonly placeholder?: string
  readonly rows?: number
  readonly isCode?: boolean
  onInput(value: string): void
}

export function TextAreaField({ label, value, placeholder, rows = 2, isCode = false, onInput }: TextFieldProps) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <textarea
        id={id}
        class={isCode ? 'code' : ''}
        rows={rows}
        value={value}
        placeholder={placeholder}
        spellcheck={!isCode}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </div>
  )
}

interface NumberFieldProps {
  readonly label: string
  /** Null for an empty field. */
  readonly value: number | null
  readonly min: number
  readonly max: number
  readonly step: number
  readonly placeholder?: string
  onInput(value: number | null): void
}

export function NumberField({ label, value, onInput, ...rest }: NumberFieldProps) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        type="number"
        value={value ?? ''}
        {...rest}
        onInput={(event) => {
          const given = event.currentTarget.valueAsNumber
          onInput(Number.isNaN(given) ? null : given)
        }}
      />
    </div>
  )
}

interface CheckFieldProps {
  readonly label: string
  readonly checked: boolean
  onChange(checked: boolean): void
}

export function CheckField({ label, checked, onChange }: CheckFieldProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={(event) => onChange(event.currentTarget.checked)} />
      {label}
    </label>
  )
}
