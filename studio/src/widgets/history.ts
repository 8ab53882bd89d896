/** What was known at one moment. */
export interface Sample<State> {
  /** In milliseconds, of a clock that does not jump. */
  readonly at: number
  readonly state: State
}

/** How far back the charts go: to the first sample, but neither less nor more than these. */
const LEAST_SPAN_MS = 60_000
const MOST_SPAN_MS = 5 * 60_000
/** Samples that are further apart are not joined: there were none in between. */
const GAP_MS = 10_000

/** The samples with a new one, without those that are too old to be shown. */
export function withSample<State>(samples: readonly Sample<State>[], sample: Sample<State>): readonly Sample<State>[] {
  const first = samples.findIndex(({ at }) => at >= sample.at - MOST_SPAN_MS)
  return [...(first === -1 ? [] : samples.slice(first)), sample]
}

/** The time that the charts show, in milliseconds. */
export function spanOf(samples: readonly Sample<unknown>[]): number {
  const [first, last] = [samples[0], samples.at(-1)]
  return Math.max(LEAST_SPAN_MS, first && last ? last.at - first.at : 0)
}

export interface Point {
  readonly at: number
  readonly value: number
}

/** A figure over time, in pieces without gaps. What is null was not known then. */
export function piecesOf<State>(samples: readonly Sample<State>[], figure: (state: State) => number | null): Point[][] {
  const pieces: Point[][] = []
  let last: Point | null = null
  for (const { at, state } of samples) {
    const value = figure(state)
    if (value === null) {
      last = null
      continue
    }
    const point = { at, value }
    if (last === null || at - last.at > GAP_MS) pieces.push([point])
    else pieces.at(-1)!.push(point)
    last = point
  }
  return pieces
}

/** The least round number (1, 2 or 5 times a power of ten) that holds all values, and is at least `least`. */
export function roundCeiling(values: readonly number[], least: number): number {
  const most = Math.max(least, ...values)
  const power = 10 ** Math.floor(Math.log10(most))
  return [1, 2, 5, 10].map((step) => step * power).find((ceiling) => ceiling >= most * (1 - 1e-9))!
}
