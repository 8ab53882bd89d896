import { useSignal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { Notice } from '../widgets/notice.tsx'
import { forgetRow } from './look.ts'
import { QuestionRow } from './question-row.tsx'
import {
  addQuestion,
  insertLines,
  linesOf,
  MOST_QUESTIONS,
  moveQuestion,
  questions,
  removeQuestion,
} from './questions.ts'

/** What has the focus after the list has changed. */
interface Focus {
  readonly id: string
  readonly on: 'text' | 'handle'
}

/** The questions with their answers, to write, to add, to remove and to put in order. */
export function QuestionList() {
  const list = useRef<HTMLOListElement>(null)
  const focus = useSignal<Focus | null>(null)
  const said = useSignal('')
  const leftOut = useSignal(0)
  const dragged = useDrag(list)
  const all = questions.value

  // Before the next key: a fast typist's belongs to the new place.
  useLayoutEffect(() => {
    if (focus.value === null) return
    const { id, on } = focus.value
    const row = [...list.current!.children].find((one) => (one as HTMLElement).dataset.question === id)
    row?.querySelector<HTMLElement>(on === 'text' ? '.question-text' : '.question-handle')?.focus()
    focus.value = null
  })

  const add = (after: string) => {
    const id = addQuestion(after)
    if (id !== null) focus.value = { id, on: 'text' }
  }
  const remove = (id: string, index: number) => {
    const neighbour = all[index - 1] ?? all[index + 1]
    forgetRow(id)
    removeQuestion(id)
    leftOut.value = 0
    focus.value = { id: neighbour?.id ?? questions.value[0]!.id, on: 'text' }
  }
  const move = (id: string, index: number, by: number, on: Focus['on']) => {
    const to = index + by
    if (to < 0 || to >= all.length) return
    moveQuestion(id, to)
    said.value = `Question ${to + 1} of ${all.length}`
    focus.value = { id, on }
  }
  return (
    <>
      <ol ref={list} class="questions" aria-label="Questions">
        {all.map((question, index) => (
          <QuestionRow
            key={question.id}
            question={question}
            index={index}
            isDragged={dragged.id.value === question.id}
            onAdd={() => add(question.id)}
            onRemove={() => remove(question.id, index)}
            onMove={(by, on) => move(question.id, index, by, on)}
            onGrab={(event) => dragged.start(event, question.id)}
            onPasteLines={(text) => {
              const lines = linesOf(text)
              if (lines.length < 2) return false
              leftOut.value = insertLines(question.id, lines)
              return true
            }}
          />
        ))}
      </ol>
      <p class="hidden" aria-live="polite">
        {said.value}
      </p>
      {leftOut.value > 0 && (
        <Notice>
          {leftOut.value === 1 ? 'One line' : `${leftOut.value} lines`} did not fit: {MOST_QUESTIONS} questions are the
          most.
        </Notice>
      )}
    </>
  )
}

/** Moves the row under the pointer; the others make room. */
function useDrag(list: { readonly current: HTMLOListElement | null }) {
  const id = useSignal<string | null>(null)
  const stop = useRef<() => void>(() => {})
  useEffect(() => () => stop.current(), [])
  const start = (event: PointerEvent, grabbed: string) => {
    if (event.button !== 0) return
    event.preventDefault()
    id.value = grabbed
    const follow = ({ clientY }: PointerEvent) => {
      const items = [...list.current!.children].map((child) => child.getBoundingClientRect())
      const from = questions.value.findIndex((one) => one.id === grabbed)
      const [own, above, below] = [items[from], items[from - 1], items[from + 1]]
      if (own === undefined) return
      // Only where the row still lies under the pointer afterwards: else rows of unequal height would change to and fro.
      if (below && clientY >= Math.max(own.top + below.height, own.bottom)) moveQuestion(grabbed, from + 1)
      else if (above && clientY < Math.min(above.top + own.height, own.top)) moveQuestion(grabbed, from - 1)
    }
    const end = () => {
      id.value = null
      removeEventListener('pointermove', follow)
      removeEventListener('pointerup', end)
      removeEventListener('pointercancel', end)
    }
    stop.current = end
    // Not captured by the handle: a row that moves in the document would lose the pointer.
    addEventListener('pointermove', follow)
    addEventListener('pointerup', end)
    addEventListener('pointercancel', end)
  }
  return { id, start }
}
