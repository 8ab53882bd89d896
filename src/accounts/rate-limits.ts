/** Requests per minute that an organisation may make, by endpoint bucket. */
export const REQUESTS_PER_MINUTE = { chat: 300, multilook: 150, detect: 300, models: 30 } as const
export type Bucket = keyof typeof REQUESTS_PER_MINUTE

const WINDOW_MS = 60_000

export interface Allowance {
  readonly allowed: boolean
  readonly limit: number
  readonly remaining: number
  /** Milliseconds until a refused request would be allowed; 0 when this one was. */
  readonly retryAfterMs: number
  /** Milliseconds until the whole limit is free again. */
  readonly resetMs: number
}

/** Milliseconds of a clock that never goes back. */
export type Clock = () => number

/**
 * Counts requests over a window that slides with the clock: in no 60 seconds are there more than the limit. A refused
 * request is not counted.
 */
export class RateLimits {
  readonly #clock: Clock
  /** Times of the requests of the last minute, oldest first. */
  readonly #windows = new Map<string, number[]>()

  constructor(clock: Clock = () => performance.now()) {
    this.#clock = clock
  }

  take(organisation: string, bucket: Bucket): Allowance {
    const now = this.#clock()
    const limit = REQUESTS_PER_MINUTE[bucket]
    const key = `${bucket} ${organisation}`
    const times = (this.#windows.get(key) ?? []).filter((time) => time > now - WINDOW_MS)
    this.#windows.set(key, times)
    const allowed = times.length < limit
    if (allowed) times.push(now)
    return {
      allowed,
      limit,
      remaining: limit - times.length,
      retryAfterMs: allowed ? 0 : times[0]! + WINDOW_MS - now,
      resetMs: times.at(-1)! + WINDOW_MS - now,
    }
  }
}
