import { AnswerLength } from './answer-length.ts'
import type { BatchSplitter } from './batch/batch-splitter.ts'

/** A running or waiting sequence: what decides how long others wait for it. */
export interface Ahead {
  /** Prompt tokens still to be computed. */
  readonly promptTokens: number
  /** Tokens of media among them that are still to be encoded. */
  readonly mediaTokens: number
  /** Maximum of further tokens. */
  readonly mostTokens: number
  /** Whether a place in the queue becomes free when it starts. */
  readonly freesPlace: boolean
}

export interface Load {
  readonly running: readonly Ahead[]
  /** In queue order. */
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
/** Maximum simulated sequences: a request may have many. */
const MOST_STARTS = 8 * FORECAST_PLACES
/** Safety factor: a client that returns a little late is admitted, one that returns a little early is refused again. */
const MARGIN = 1.25
/** Multiples of the golden ratio modulo 1 are evenly spread for any count. */
const GOLDEN = (Math.sqrt(5) - 1) / 2

/**
 * Predicts when places in a full queue become free: it simulates the running and waiting sequences at the speed of recent
 * steps. It owns that speed, the lengths of answers and the reservations. Each place is reserved once, so simultaneous
 * refusals get different times. The scheduler calls it for each refusal, and after each step.
 */
export class QueueForecast {
  readonly #splitter: BatchSplitter
  readonly #lengths = new AnswerLength()
  /** Duration of recent steps, measured and by calibration. */
  #tookMs = TRUST_MS
  #expectedMs = TRUST_MS
  /** How long encoding recent media took. */
  readonly #encoded = { ms: 0, tokens: 0 }
  /** Duration of the turns for media that is not complete, as that of an aborted request never is. */
  readonly #encodingMs = new WeakMap<object, number>()
  /** When refused clients are told to retry, by the clock of `now`. */
  #reserved: number[] = []
  #latest: Forecast = { at: Number.NEGATIVE_INFINITY, places: [] }

  constructor(splitter: BatchSplitter) {
    this.#splitter = splitter
  }

  /**
   * Learns from a step that is not an encoder turn.
   * @param ms time since the previous step.
   */
  stepped(ms: number, decoded: number, prefilled: number): void {
    const expected = this.#splitter.roundMs(decoded) + prefilled * this.#splitter.rowMs
    this.#tookMs = this.#tookMs * MEMORY + ms
    this.#expectedMs = this.#expectedMs * MEMORY + expected
  }

  /** Learns from a turn of the encoder for `media`. @param tokens its tokens if the turn has completed it, or 0. */
  encoded(media: object, ms: number, tokens: number): void {
    const sum = (this.#encodingMs.get(media) ?? 0) + ms
    this.#encodingMs.set(media, sum)
    if (tokens === 0) return
    this.#encoded.ms = this.#encoded.ms * MEMORY + sum
    this.#encoded.tokens = this.#encoded.tokens * MEMORY + tokens
  }

  /** Learns from a completion that ended. @param byItself whether the model ended it, not its limit. */
  ended(tokens: number, byItself: boolean): void {
    this.#lengths.ended(tokens, byItself)
  }

  /** Reserves the next place that is not reserved yet. @returns milliseconds until it is free. */
  reserveRetryAfter(load: () => Load, now = performance.now()): number {
    this.#reserved = this.#reserved.filter((due) => due > now)
    if (now - this.#latest.at > FRESH_MS) this.#latest = { at: now, places: this.#simulate(load()) }
    const { at, places } = this.#latest
    const place = this.#reserved.length
    const last = places.at(-1) ?? 0
    const ms = places[place] ?? (last * (place + 1)) / Math.max(1, places.length)
    const due = Math.max(now, at + ms)
    this.#reserved.push(due)
    return due - now
  }

  /** Milliseconds from now at which places will be free, in ascending order. */
  #simulate({ running, waiting }: Load): number[] {
    const speed = (MARGIN * this.#tookMs) / Math.max(this.#expectedMs, Number.MIN_VALUE)
    const encodeMs = (MARGIN * this.#encoded.ms) / Math.max(this.#encoded.tokens, 1)
    let clock = 0
    let round = 0
    let started = 0
    /** Rounds in which running sequences end, the next one last. */
    const ends: number[] = []
    const places: number[] = []
    const start = ({ promptTokens, mediaTokens, mostTokens }: Ahead) => {
      clock += promptTokens * this.#splitter.rowMs * speed + mediaTokens * encodeMs
      const end = round + this.#lengths.quantile(mostTokens, (++started * GOLDEN) % 1)
      const before = ends.findLastIndex((other) => other > end)
      ends.splice(before + 1, 0, end)
    }
    for (const ahead of running) start(ahead)
    // By then, requests that are refused now wait too; they are assumed to be like those that wait already.
    for (let next = 0; waiting.length > 0 && places.length < FORECAST_PLACES && started < MOST_STARTS; next++) {
      const end = ends.pop()
      if (end !== undefined) {
        clock += (end - round) * this.#splitter.roundMs(ends.length + 1) * speed
        round = end
      }
      const ahead = waiting[next % waiting.length]!
      start(ahead)
      if (ahead.freesPlace) places.push(clock)
    }
    return places
  }
}
