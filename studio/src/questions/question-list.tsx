import { useSignal } from '@preact/signals'
import type { VNode } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { Notice } from '../widgets/notices/notice.tsx'
import { linesOf, type Question, type QuestionStore } from './question-store.ts'

/** What has the focus after the list has changed. */
interface Focus {
  readonly id: string
  readonly on: 'text' | 'handle'
}

/** What a row shows of its place in the list, and what it can do there. */
export interface RowPlace {
  readonly index: number
  readonly isDragged: boolean
  onAdd(): void
  onRemove(): void
  onMove(by: number, on: Focus['on']): void
  onGrab(event: PointerEvent): void
  /** @returns whether it took the text: when it has several lines. */
  onPasteLines(text: string): boolean
}

interface QuestionListProps<Asked extends Question> {
  readonly store: QuestionStore<Asked>
  /** An `li` with the question's id as `data-question` and a `QuestionLine` in it. */
  readonly row: (question: Asked, place: RowPlace) => VNode
  /** Told before a question is removed. */
  readonly onRemove?: (id: string) => void
}

/** Questions with their answers, to write, to add, to remove and to put in order. */
export function QuestionList<Asked extends Question>({ store, row, onRemove }: QuestionListProps<Asked>) {
  const list = useRef<HTMLOListElement>(null)
  const focus = useSignal<Focus | null>(null)
  const said = useSignal('')
  const leftOut = useSignal(0)
  const dragged = useDrag(list, store as unknown as QuestionStore<Question>)
  const all = store.all.value

  // Before the next key: a fast typist's belongs to the new place.
  useLayoutEffect(() => {
    if (focus.value === null) return
    const { id, on } = focus.value
    const item = [...list.current!.children].find((one) => (one as HTMLElement).dataset.question === id)
    item?.querySelector<HTMLElement>(on === 'text' ? '.question-text' : '.question-handle')?.focus()
    focus.value = null
  })

  const add = (after: string) => {
    const id = store.add(after)
    if (id !== null) focus.value = { id, on: 'text' }
  }
  const remove = (id: string, index: number) => {
    const neighbour = all[index - 1] ?? all[index + 1]
    onRemove?.(id)
    store.remove(id)
    leftOut.value = 0
    focus.value = { id: neighbour?.id ?? store.all.value[0]!.id, on: 'text' }
  }
  const move = (id: string, index: number, by: number, on: Focus['on']) => {
    const to = index + by
    if (to < 0 || to >= all.length) return
    store.move(id, to)
    said.value = `Question ${to + 1} of ${all.length}`
    focus.value = { id, on }
  }
  return (
    <>
      <ol ref={list} class="questions" aria-label="Questions">
        {all.map((question, index) => {
          const { id } = question
          return row(question, {
            index,
            isDragged: dragged.id.value === id,
            onAdd: () => add(id),
            onRemove: () => remove(id, index),
            onMove: (by, on) => move(id, index, by, on),
            onGrab: (event) => dragged.start(event, id),
            onPasteLines: (text) => {
              const lines = linesOf(text)
              if (lines.length < 2) return false
              leftOut.value = store.insertLines(id, lines)
              return true
            },
          })
        })}
      </ol>
      <p class="hidden" aria-live="polite">
        {said.value}
      </p>
      {leftOut.value > 0 && (
        <Notice>
          {leftOut.value === 1 ? 'One line' : `${leftOut.value} lines`} did not fit: {store.most} questions are the
          most.
        </Notice>
      )}
    </>
  )
}

/** Moves the row under the pointer; the others make room. */
function useDrag(list: { readonly current: HTMLOListElement | null }, store: QuestionStore<Question>) {
  const id = useSignal<string | null>(null)
  const stop = useRef<() => void>(() => {})
  useEffect(() => () => stop.current(), [])
  const start = (event: PointerEvent, grabbed: string) => {
    if (event.button !== 0) return
    event.preventDefault()
    id.value = grabbed
    const follow = ({ clientY }: PointerEvent) => {
      const items = [...list.current!.children].map((child) => child.getBoundingClientRect())
      const from = store.all.value.findIndex((one) => one.id === grabbed)
      const [own, above, below] = [items[from], items[from - 1], items[from + 1]]
      if (own === undefined) return
      // Only where the row still lies under the pointer afterwards: else rows of unequal height would change to and fro.
      if (below && clientY >= Math.max(own.top + below.height, own.bottom)) store.move(grabbed, from + 1)
      else if (above && clientY < Math.min(above.top + own.height, own.top)) store.move(grabbed, from - 1)
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
