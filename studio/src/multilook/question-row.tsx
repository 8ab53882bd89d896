import { useLayoutEffect, useRef } from 'preact/hooks'
import { IconButton } from '../widgets/button.tsx'
import { counted } from '../widgets/quantities.ts'
import { AnswerList } from './answer-list.tsx'
import { lookAll, picked, rows } from './look.ts'
import { type Question, setText } from './questions.ts'
import type { Row } from './row.ts'

interface QuestionRowProps {
  readonly question: Question
  readonly index: number
  readonly isDragged: boolean
  onAdd(): void
  onRemove(): void
  onMove(by: number, on: 'text' | 'handle'): void
  onGrab(event: PointerEvent): void
  /** @returns whether it took the text: when it has several lines. */
  onPasteLines(text: string): boolean
}

/** A question, to write, with its answers. */
export function QuestionRow({ question, index, isDragged, ...does }: QuestionRowProps) {
  const { id, text } = question
  const row = rows.value.get(id)
  const isPicked = picked.value?.question === id
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.isComposing) return
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key]
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void lookAll()
    else if (event.key === 'Enter' && !event.shiftKey) does.onAdd()
    else if (event.key === 'Backspace' && text === '') does.onRemove()
    else if (step !== undefined && event.altKey) does.onMove(step, 'text')
    else return
    event.preventDefault()
  }
  return (
    <li class={`question-row ${isDragged ? 'dragged' : ''} ${isPicked ? 'picked' : ''}`} data-question={id}>
      <div class="question-line">
        <button
          type="button"
          class="question-handle"
          aria-label={`Move question ${index + 1}`}
          title="Drag, or press the up and down arrows, to move it"
          onPointerDown={does.onGrab}
          onKeyDown={(event) => {
            const step = { ArrowUp: -1, ArrowDown: 1 }[event.key]
            if (step === undefined) return
            event.preventDefault()
            does.onMove(step, 'handle')
          }}
        >
          {index + 1}
        </button>
        <GrowingText
          label={`Question ${index + 1}`}
          value={text}
          onInput={(value) => setText(id, value)}
          onKeyDown={onKeyDown}
          onPaste={(event) => {
            const pasted = event.clipboardData?.getData('text/plain') ?? ''
            if (does.onPasteLines(pasted)) event.preventDefault()
          }}
        />
        {row && <RowStatusText row={row} />}
        {row && <PickButton id={id} index={index} row={row} />}
        <IconButton icon="close" label={`Remove question ${index + 1}`} onClick={does.onRemove} />
      </div>
      {row && <AnswerList id={id} row={row} isChanged={row.question !== text.trim()} />}
    </li>
  )
}

function RowStatusText({ row }: { readonly row: Row }) {
  const status = row.status.value
  if (status === 'waiting') return <span class="row-status waiting">waiting</span>
  if (status === 'answering') return <span class="row-status">answering</span>
  if (status === 'done') {
    return <span class="row-status">{counted(row.tokens.value!, 'token')}</span>
  }
  return <span class="row-status">{status === 'failed' ? 'failed' : 'not answered'}</span>
}

/** Shows only this question's marks on the stage. */
function PickButton({ id, index, row }: { readonly id: string; readonly index: number; readonly row: Row }) {
  const hasMarks = row.readings.value.some((pieces) => pieces.some(({ kind }) => kind === 'annotation'))
  if (!hasMarks) return null
  const isPicked = picked.value?.question === id
  return (
    <IconButton
      icon="detect"
      label={`Show only the marks of question ${index + 1}`}
      pressed={isPicked}
      onClick={() => {
        picked.value = isPicked ? null : { question: id, answer: null }
      }}
    />
  )
}

interface GrowingTextProps {
  readonly label: string
  readonly value: string
  onInput(value: string): void
  onKeyDown(event: KeyboardEvent): void
  onPaste(event: ClipboardEvent): void
}

/** A field as tall as its text. */
function GrowingText({ label, value, onInput, onKeyDown, onPaste }: GrowingTextProps) {
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
      placeholder="Ask something"
      value={value}
      onInput={(event) => onInput(event.currentTarget.value)}
      onKeyDown={onKeyDown}
      onPaste={onPaste}
    />
  )
}
