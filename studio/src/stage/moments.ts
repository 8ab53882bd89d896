import { computed, type ReadonlySignal } from '@preact/signals'
import type { Clip, Mark } from '../marks/mark.ts'

/** How long a mark of a single moment is shown before and after it, in seconds. */
const LONE_MOMENT_S = 0.5

/** When a mark is shown; `from` belongs to the span and `to` does not. */
interface ShownMark {
  readonly mark: Mark
  readonly from: number
  readonly to: number
}

/**
 * When each mark is shown. A mark with a time is shown around it, up to the middle between it and the next time of its
 * label, so that a thing that was found in many frames is always seen once. A mark without a time is shown always.
 */
export function shownSpans(marks: readonly Mark[]): readonly ShownMark[] {
  const times = new Map<string, number[]>()
  for (const { label, time } of marks) {
    if (time === undefined) continue
    const known = times.get(label) ?? []
    if (!known.includes(time)) known.push(time)
    times.set(label, known)
  }
  for (const known of times.values()) known.sort((a, b) => a - b)
  return marks.map((mark) => {
    const { label, time, shown } = mark
    if (shown) return { mark, from: shown[0], to: shown[1] }
    if (time === undefined) return { mark, from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY }
    const known = times.get(label)!
    const index = known.indexOf(time)
    const [before, after] = [known[index - 1], known[index + 1]]
    const half = (other: number | undefined) => (other === undefined ? null : Math.abs(other - time) / 2)
    return {
      mark,
      from: time - (half(before) ?? half(after) ?? LONE_MOMENT_S),
      to: time + (half(after) ?? half(before) ?? LONE_MOMENT_S),
    }
  })
}

/** The marks that are shown at the time. The list stays the same object while its marks do. */
export function visibleMarks(marks: readonly Mark[], time: ReadonlySignal<number>): ReadonlySignal<readonly Mark[]> {
  const spans = shownSpans(marks)
  let last: readonly Mark[] = []
  return computed(() => {
    const now = spans.filter(({ from, to }) => time.value >= from && time.value < to).map(({ mark }) => mark)
    if (now.length !== last.length || now.some((mark, index) => mark !== last[index])) last = now
    return last
  })
}

/** A row of the timeline: all that was found under one label. */
export interface Lane {
  readonly label: string
  readonly spans: readonly Span[]
}

/** A clip or a moment; a moment has no end. */
export interface Span {
  /** Id of the clip or the mark. */
  readonly id: string
  readonly start: number
  readonly end: number | null
}

/** Labels in the order of their first span. */
export function lanesOf(clips: readonly Clip[], marks: readonly Mark[]): readonly Lane[] {
  const lanes = new Map<string, Span[]>()
  const add = (label: string, span: Span) => {
    const spans = lanes.get(label)
    if (spans) spans.push(span)
    else lanes.set(label, [span])
  }
  for (const { id, label, start, end } of clips) add(label, { id, start, end: end ?? null })
  for (const { id, label, time } of marks) if (time !== undefined) add(label, { id, start: time, end: null })
  return [...lanes]
    .map(([label, spans]) => ({ label, spans: spans.sort((a, b) => a.start - b.start) }))
    .sort((a, b) => a.spans[0]!.start - b.spans[0]!.start)
}
