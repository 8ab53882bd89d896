import { useEffect, useId, useRef } from 'preact/hooks'
import type { Fault } from './fault.ts'
import { lineAndColumn } from './json-places.ts'

interface CodeEditorProps {
  readonly label: string
  readonly value: string
  readonly fault: Fault | null
  /** When it grows, the cursor goes to the fault. */
  readonly faultsToShow: number
  /** Whether lines end only where the text has line breaks. */
  readonly hasLines: boolean
  onInput(value: string): void
  onSubmit(): void
}

const INDENT = '  '

/** A field for code: numbered lines, Tab indents, and the line at fault is marked. */
export function CodeEditor({ label, value, fault, faultsToShow, hasLines, onInput, onSubmit }: CodeEditorProps) {
  const field = useRef<HTMLTextAreaElement>(null)
  const scroller = useRef<HTMLDivElement>(null)
  /** After Escape, Tab leaves the field as everywhere else. */
  const leaves = useRef(false)
  const id = useId()
  const lines = value.split('\n').length
  const at = fault === null ? null : lineAndColumn(value, fault.offset)

  useEffect(() => {
    if (faultsToShow === 0 || fault === null || at === null) return
    field.current!.focus({ preventScroll: true })
    field.current!.setSelectionRange(fault.offset, fault.offset)
    scroller.current!.querySelector('.current-fault')?.scrollIntoView({ block: 'nearest' })
  }, [faultsToShow])

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Escape') leaves.current = true
    else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
      event.preventDefault()
      onSubmit()
    } else if (event.key === 'Tab' && !leaves.current && hasLines) {
      event.preventDefault()
      if (event.shiftKey) outdent(field.current!)
      else indent(field.current!)
    } else if (event.key === 'Enter' && hasLines && !event.isComposing) {
      event.preventDefault()
      const { selectionStart } = field.current!
      const line = value.slice(value.lastIndexOf('\n', selectionStart - 1) + 1, selectionStart)
      insert(`\n${/^\s*/.exec(line)![0]}${/[{[]\s*$/.test(line) ? INDENT : ''}`)
    } else if (event.key !== 'Shift') leaves.current = false
  }
  return (
    <div class="code-field">
      <div ref={scroller} class={`code-editor ${fault ? 'at-fault' : ''}`}>
        {hasLines && (
          <div class="code-lines" aria-hidden="true">
            {Array.from({ length: lines }, (_, index) => (
              <span key={index} class={index + 1 === at?.line ? 'current-fault' : ''}>
                {index + 1}
              </span>
            ))}
          </div>
        )}
        <div class="code-text">
          {hasLines && at !== null && <span class="fault-line" style={{ '--fault': String(at.line - 1) }} />}
          <textarea
            ref={field}
            class="code"
            rows={lines}
            wrap={hasLines ? 'off' : 'soft'}
            aria-label={label}
            aria-invalid={fault !== null}
            aria-describedby={`${id}-help${fault ? ` ${id}-fault` : ''}`}
            spellcheck={false}
            autocomplete="off"
            autocapitalize="off"
            value={value}
            onInput={(event) => onInput(event.currentTarget.value)}
            onKeyDown={onKeyDown}
            onBlur={() => {
              leaves.current = false
            }}
          />
        </div>
      </div>
      <p id={`${id}-help`} class="hidden">
        {hasLines ? 'Tab indents. Escape, then Tab leaves the field. ' : ''}Control and Enter ask.
      </p>
      {fault !== null && at !== null && (
        <p id={`${id}-fault`} class="code-fault" role="status">
          <strong>{hasLines ? `Line ${at.line}, column ${at.column}` : `Character ${at.column}`}:</strong>{' '}
          {fault.message}
        </p>
      )}
    </div>
  )
}

/** Types into the focused field, so that the browser's undo knows of it. */
function insert(text: string): void {
  document.execCommand(text === '' ? 'delete' : 'insertText', false, text)
}

function indent(field: HTMLTextAreaElement): void {
  const { selectionStart, selectionEnd, value } = field
  if (value.slice(selectionStart, selectionEnd).includes('\n')) replaceLines(field, (line) => INDENT + line)
  else insert(INDENT)
}

function outdent(field: HTMLTextAreaElement): void {
  replaceLines(field, (line) => line.replace(/^(?: {1,2}|\t)/, ''))
}

/** Changes the lines that the selection touches, and selects them. */
function replaceLines(field: HTMLTextAreaElement, change: (line: string) => string): void {
  const { selectionStart, selectionEnd, value } = field
  const start = value.lastIndexOf('\n', selectionStart - 1) + 1
  const next = value.indexOf('\n', Math.max(selectionStart, selectionEnd - 1))
  const end = next === -1 ? value.length : next
  const before = value.slice(start, end)
  const after = before.split('\n').map(change).join('\n')
  if (after === before) return
  field.setSelectionRange(start, end)
  insert(after)
  if (selectionStart === selectionEnd) {
    const cursor = Math.max(start, selectionStart + after.length - before.length)
    field.setSelectionRange(cursor, cursor)
  } else field.setSelectionRange(start, start + after.length)
}
