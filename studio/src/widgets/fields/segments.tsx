interface SegmentsProps<Value extends string> {
  readonly label: string
  readonly value: Value
  readonly choices: readonly { readonly value: Value; readonly title: string }[]
  onChoose(value: Value): void
}

/** A choice of a few; arrow keys move it, as they do in a group of radio buttons. */
export function Segments<Value extends string>({ label, value, choices, onChoose }: SegmentsProps<Value>) {
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key]
    if (step === undefined) return
    event.preventDefault()
    const index = choices.findIndex((choice) => choice.value === value)
    const next = (index + step + choices.length) % choices.length
    onChoose(choices[next]!.value)
    const buttons = (event.currentTarget as HTMLElement).querySelectorAll('button')
    buttons[next]?.focus()
  }
  return (
    <div class="segments" role="radiogroup" aria-label={label} onKeyDown={move}>
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          role="radio"
          aria-checked={choice.value === value}
          tabIndex={choice.value === value ? 0 : -1}
          onClick={() => onChoose(choice.value)}
        >
          {choice.title}
        </button>
      ))}
    </div>
  )
}
