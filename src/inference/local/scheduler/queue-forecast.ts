import { AnswerLength } from './answer-length.ts'
import type { BatchSplitter } from './batch-splitter.ts'

/** A completion that runs or waits, as far as it tells how long others wait for it. */
export interface Ahead {
  /** Prompt tokens still to be computed. */
  readonly promptTokens: number
  /** Tokens that it may still get. */
  readonly mostTokens: number
  /** Whether its start leaves a place in the queue. */
  readonly leavesPlace: boolean
}

export interface Load {
  readonly running: readonly Ahead[]
  /** In the order of the queue. */
  readonly waiting: readonly Ahead[]
}

/** What a step counts for the speed once the next one is done. */
const MEMORY = 0.98
/** Time for which the measured speed before the first steps stands, in ms. */
const TRUST_MS = 50
/** A forecast is used for so long, in ms. */
const FRESH_MS = 50
/** Places that are foreseen one by one; beyond them time goes on at the same rate. */
const FORESEEN = 1024
/** Completions that are played on for them at most: a request may have many. */
const MOST_STARTS = 8 * FORESEEN
/** Who comes a little late is admitted, who comes a little early is refused once more. */
const MARGIN = 1.25
/** Multiples of the golden ratio, modulo 1, are spread evenly however many there are. */
const GOLDEN = (Math.sqrt(5) - 1) / 2

/**
 * Foresees when places in a full queue become free, by playing on what runs and waits at the speed of the last steps.
 * Each place is promised once: of many that are refused at the same moment, each is told a later time.
 */
export class QueueForecast {
  readonly #splitter: BatchSplitter
  readonly #lengths = new AnswerLength()
  /** Of recent steps: how long they took, and how long they should have taken by what was measured at the start. */
  #tookMs = TRUST_MS
  #expectedMs = TRUST_MS
  /** When those who were refused are to come back, by the clock of `now`. */
  #promised: number[] = []
  #foreseen: { readonly at: number; readonly places: readonly number[] } = { at: Number.NEGATIVE_INFINITY, places: [] }

  constructor(splitter: BatchSplitter) {
    this.#splitter = splitter
  }

  /** Takes note of a step, with the time since the one before it: the tokens that it decoded and prefilled. */
  stepped(ms: number, decoded: number, prefilled: number): void {
    const expected = this.#splitter.roundMs(decoded) + prefilled * this.#splitter.rowMs
    this.#tookMs = this.#tookMs * MEMORY + ms
    this.#expectedMs = this.#expectedMs * MEMORY + expected
  }

  /** Takes note of a completion's end. @param byItself whether the model ended it, and not its limit. */
  ended(tokens: number, byItself: boolean): void {
    this.#lengths.ended(tokens, byItself)
  }

  /** Promises the next place that nobody was promised. @returns milliseconds until it is free. */
  promisePlace(load: () => Load, now = performance.now()): number {
    this.#promised = this.#promised.filter((due) => due > now)
    if (now - this.#foreseen.at > FRESH_MS) this.#foreseen = { at: now, places: this.#foresee(load()) }
    const { at, places } = this.#foreseen
    const place = this.#promised.length
    const last = places.at(-1) ?? 0
    const ms = places[place] ?? (last * (place + 1)) / Math.max(1, places.length)
    const due = Math.max(now, at + ms)
    this.#promised.push(due)
    return due - now
  }

  /** Milliseconds from now at which places will be free, in ascending order. */
  #foresee({ running, waiting }: Load): number[] {
    const speed = (MARGIN * this.#tookMs) / Math.max(this.#expectedMs, Number.MIN_VALUE)
    let clock = 0
    let round = 0
    let started = 0
    /** Rounds at which those that run end, the next one last. */
    const ends: number[] = []
    const places: number[] = []
    const start = ({ promptTokens, mostTokens }: Ahead) => {
      clock += promptTokens * this.#splitter.rowMs * speed
      const end = round + this.#lengths.quantile(mostTokens, (++started * GOLDEN) % 1)
      const before = ends.findLastIndex((other) => other > end)
      ends.splice(before + 1, 0, end)
    }
    for (const ahead of running) start(ahead)
    // Whoever is refused now waits as well by then, and is like those who do.
    for (let next = 0; waiting.length > 0 && places.length < FORESEEN && started < MOST_STARTS; next++) {
      const end = ends.pop()
      if (end !== undefined) {
        clock += (end - round) * this.#splitter.roundMs(ends.length + 1) * speed
        round = end
      }
      const ahead = waiting[next % waiting.length]!
      start(ahead)
      if (ahead.leavesPlace) places.push(clock)
    }
    return places
  }
}
