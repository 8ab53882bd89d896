import { AnswerLength } from './answer-length.ts'
import type { BatchSplitter } from './batch/batch-splitter.ts'

/** A sequence that runs or waits: what decides how long others wait for it. */
export interface Ahead {
  /** Prompt tokens still to be computed. */
  readonly promptTokens: number
  /** Most tokens that it may still get. */
  readonly mostTokens: number
  /** Whether a place in the queue becomes free when it starts. */
  readonly leavesPlace: boolean
}

export interface Load {
  readonly running: readonly Ahead[]
  /** In the order of the queue. */
  readonly waiting: readonly Ahead[]
}

interface Forecast {
  readonly at: number
  /** Milliseconds from `at` until each place is free, in ascending order. */
  readonly places: readonly number[]
}

/** Weight that a step keeps each time a later one is counted. */
const MEMORY = 0.98
/** Weight of the speed measured during warm-up, in ms of steps. */
const TRUST_MS = 50
/** How long a forecast is used, in ms. */
const FRESH_MS = 50
/** Places that are forecast one by one; later ones follow at the same rate. */
const FORECAST_PLACES = 1024
/** Most sequences that are simulated for that: a request may have many. */
const MOST_STARTS = 8 * FORECAST_PLACES
/** A client that comes a little late is admitted; one that comes a little early is refused again. */
const MARGIN = 1.25
/** Multiples of the golden ratio modulo 1 are spread evenly, however many there are. */
const GOLDEN = (Math.sqrt(5) - 1) / 2

/**
 * Predicts when places in a full queue become free: it simulates what runs and waits, at the speed of the last steps. It
 * owns that speed, the lengths of answers and the promises. Each place is promised once: of many requests that are refused
 * at the same moment, each is told a later time. The scheduler calls it for each refusal, and after each step.
 */
export class QueueForecast {
  readonly #splitter: BatchSplitter
  readonly #lengths = new AnswerLength()
  /** How long recent steps took, and how long they should have taken by the times measured during warm-up. */
  #tookMs = TRUST_MS
  #expectedMs = TRUST_MS
  /** When clients that were refused are to come back, by the clock of `now`. */
  #promised: number[] = []
  #latest: Forecast = { at: Number.NEGATIVE_INFINITY, places: [] }

  constructor(splitter: BatchSplitter) {
    this.#splitter = splitter
  }

  /** Learns from a step. @param ms time since the step before it. */
  stepped(ms: number, decoded: number, prefilled: number): void {
    const expected = this.#splitter.roundMs(decoded) + prefilled * this.#splitter.rowMs
    this.#tookMs = this.#tookMs * MEMORY + ms
    this.#expectedMs = this.#expectedMs * MEMORY + expected
  }

  /** Learns from a completion that ended. @param byItself whether the model ended it, not its limit. */
  ended(tokens: number, byItself: boolean): void {
    this.#lengths.ended(tokens, byItself)
  }

  /** Promises the next place that was not promised yet. @returns milliseconds until it is free. */
  promisePlace(load: () => Load, now = performance.now()): number {
    this.#promised = this.#promised.filter((due) => due > now)
    if (now - this.#latest.at > FRESH_MS) this.#latest = { at: now, places: this.#simulate(load()) }
    const { at, places } = this.#latest
    const place = this.#promised.length
    const last = places.at(-1) ?? 0
    const ms = places[place] ?? (last * (place + 1)) / Math.max(1, places.length)
    const due = Math.max(now, at + ms)
    this.#promised.push(due)
    return due - now
  }

  /** Milliseconds from now at which places will be free, in ascending order. */
  #simulate({ running, waiting }: Load): number[] {
    const speed = (MARGIN * this.#tookMs) / Math.max(this.#expectedMs, Number.MIN_VALUE)
    let clock = 0
    let round = 0
    let started = 0
    /** Rounds in which running sequences end, the next one last. */
    const ends: number[] = []
    const places: number[] = []
    const start = ({ promptTokens, mostTokens }: Ahead) => {
      clock += promptTokens * this.#splitter.rowMs * speed
      const end = round + this.#lengths.quantile(mostTokens, (++started * GOLDEN) % 1)
      const before = ends.findLastIndex((other) => other > end)
      ends.splice(before + 1, 0, end)
    }
    for (const ahead of running) start(ahead)
    // By then, requests that are refused now wait as well; they are taken to be like those that wait already.
    for (let next = 0; waiting.length > 0 && places.length < FORECAST_PLACES && started < MOST_STARTS; next++) {
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
