import type { Signal } from '@preact/signals'

interface QuestionFieldProps {
  readonly text: Signal<string>
  readonly placeholder?: string
  /** Label of a question that is being changed; else it is the next one. */
  readonly label?: string
  onSubmit(): void
}

/** Where a question is written. Enter sends it, and Shift Enter begins a new line. */
export function QuestionField({ text, placeholder, label, onSubmit }: QuestionFieldProps) {
  return (
    <textarea
      aria-label={label ?? 'Your question'}
      {...(label === undefined ? { 'aria-keyshortcuts': '/', 'data-draft': true } : {})}
      placeholder={placeholder}
      rows={2}
      value={text.value}
      onInput={(event) => {
        text.value = event.currentTarget.value
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
        event.preventDefault()
        onSubmit()
      }}
    />
  )
}
