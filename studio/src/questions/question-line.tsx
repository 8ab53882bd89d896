import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { IconButton } from '../widgets/button.tsx'
import type { RowPlace } from './question-list.tsx'

interface QuestionLineProps {
  readonly text: string
  readonly place: RowPlace
  readonly placeholder?: string
  readonly isAtFault?: boolean
  /** Beside the text. */
  readonly children?: ComponentChildren
  onInput(text: string): void
  onAskAll(): void
}

/** A question to write, with its number, which moves it, and the button that removes it. */
export function QuestionLine({ text, place, placeholder, isAtFault, children, onInput, onAskAll }: QuestionLineProps) {
  const number = place.index + 1
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key]
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) onAskAll()
    else if (event.key === 'Enter' && !event.shiftKey) place.onAdd()
    else if (event.key === 'Backspace' && text === '') place.onRemove()
    else if (step !== undefined && event.altKey) place.onMove(step, 'text')
    else return
    event.preventDefault()
  }
  return (
    <div class="question-line">
      <button
        type="button"
        class="question-handle"
        aria-label={`Move question ${number}`}
        title="Drag, or press the up and down arrows, to move it"
        onPointerDown={place.onGrab}
        onKeyDown={(event) => {
          const step = { ArrowUp: -1, ArrowDown: 1 }[event.key]
          if (step === undefined) return
          event.preventDefault()
          place.onMove(step, 'handle')
        }}
      >
        {number}
      </button>
      <GrowingText
        label={`Question ${number}`}
        value={text}
        placeholder={placeholder ?? 'Ask something'}
        isAtFault={isAtFault}
        onInput={onInput}
        onKeyDown={onKeyDown}
        onPaste={(event) => {
          const pasted = event.clipboardData?.getData('text/plain') ?? ''
          if (place.onPasteLines(pasted)) event.preventDefault()
        }}
      />
      {children}
      <IconButton icon="close" label={`Remove question ${number}`} onClick={place.onRemove} />
    </div>
  )
}

interface GrowingTextProps {
  readonly label: string
  readonly value: string
  readonly placeholder: string
  readonly isAtFault: boolean | undefined
  onInput(value: string): void
  onKeyDown(event: KeyboardEvent): void
  onPaste(event: ClipboardEvent): void
}

/** A field as tall as its text. */
function GrowingText({ label, value, placeholder, isAtFault, onInput, onKeyDown, onPaste }: GrowingTextProps) {
  const field = useRef<HTMLTextAreaElement>(null)
  useLayoutEffect(() => {
    const { style } = field.current!
    style.height = 'auto'
    style.height = `${field.current!.scrollHeight}px`
  }, [value])
  return (
    <textarea
      ref={field}
      class="question-text"
      rows={1}
      aria-label={label}
      placeholder={placeholder}
      aria-invalid={isAtFault || undefined}
      value={value}
      onInput={(event) => onInput(event.currentTarget.value)}
      onKeyDown={onKeyDown}
      onPaste={onPaste}
    />
  )
}
