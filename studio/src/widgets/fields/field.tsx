import { useId } from 'preact/hooks'

/** What the server says is wrong with a field, below it. */
function FieldFault({ id, fault }: { readonly id: string; readonly fault: string | null | undefined }) {
  if (fault === null || fault === undefined) return null
  return (
    <p id={`${id}-fault`} class="field-fault" role="alert">
      {fault}
    </p>
  )
}

function faultProps(id: string, fault: string | null | undefined) {
  return fault === null || fault === undefined ? {} : { 'aria-invalid': true, 'aria-describedby': `${id}-fault` }
}

interface LineFieldProps {
  readonly label: string
  readonly value: string
  readonly placeholder?: string
  readonly isSecret?: boolean
  readonly fault?: string | null
  onInput(value: string): void
}

/** Text of one line. */
export function LineField({ label, value, placeholder, isSecret = false, fault, onInput }: LineFieldProps) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        {...(isSecret ? ({ type: 'password' } as const) : ({ type: 'text' } as const))}
        value={value}
        placeholder={placeholder}
        autocomplete={isSecret ? 'new-password' : 'off'}
        {...faultProps(id, fault)}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
      <FieldFault id={id} fault={fault} />
    </div>
  )
}

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
  readonly fault?: string | null
  onInput(value: number | null): void
}

export function NumberField({ label, value, fault, onInput, ...rest }: NumberFieldProps) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        id={id}
        type="number"
        value={value ?? ''}
        {...rest}
        {...faultProps(id, fault)}
        onInput={(event) => {
          const given = event.currentTarget.valueAsNumber
          onInput(Number.isNaN(given) ? null : given)
        }}
      />
      <FieldFault id={id} fault={fault} />
    </div>
  )
}

interface SelectFieldProps {
  readonly label: string
  readonly value: string
  readonly options: readonly { readonly value: string; readonly label: string }[]
  readonly fault?: string | null
  onChange(value: string): void
}

export function SelectField({ label, value, options, fault, onChange }: SelectFieldProps) {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <select
        id={id}
        value={value}
        {...faultProps(id, fault)}
        onChange={(event) => onChange(event.currentTarget.value)}
      >
        {options.map((one) => (
          <option key={one.value} value={one.value}>
            {one.label}
          </option>
        ))}
      </select>
      <FieldFault id={id} fault={fault} />
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
