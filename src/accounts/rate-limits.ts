import { type Bucket, type LimitChanges, REQUESTS_PER_MINUTE } from '../config/rate-limits.ts'
import type { Principal } from './principal.ts'

export const WINDOW_MS = 60_000

export interface Allowance {
  readonly allowed: boolean
  readonly limit: number
  readonly remaining: number
  /** Milliseconds until a refused request would be allowed; 0 when this one was. */
  readonly retryAfterMs: number
  /** Milliseconds until the whole limit is free again, at most. */
  readonly resetMs: number
}

/** Milliseconds of a clock that never goes back. */
export type Clock = () => number

/**
 * Counts requests over a window that slides with the clock: in no 60 seconds are there more than the limit. A refused
 * request is not counted.
 */
export interface RateLimits {
  /** @throws ApiError 503 when the count is kept elsewhere and that is away. */
  take(principal: Principal, bucket: Bucket): Allowance | Promise<Allowance>
  close(): Promise<void>
}

/** The organisation's own limit, the server's, or the contract's. */
export function limitOf(principal: Principal, bucket: Bucket, changes: LimitChanges): number {
  return principal.limits.requestsPerMinute?.[bucket] ?? changes[bucket] ?? REQUESTS_PER_MINUTE[bucket]
}

/** Times of requests, oldest first; those before `first` are over. */
interface Window {
  times: number[]
  first: number
}

/** Counts in this process. */
export class LocalRateLimits implements RateLimits {
  readonly #clock: Clock
  readonly #changes: LimitChanges
  readonly #windows = new Map<string, Window>()

  constructor(changes: LimitChanges = {}, clock: Clock = () => performance.now()) {
    this.#changes = changes
    this.#clock = clock
  }

  take(principal: Principal, bucket: Bucket): Allowance {
    const now = this.#clock()
    const limit = limitOf(principal, bucket, this.#changes)
    const window = this.#window(`${bucket} ${principal.organisation}`, now)
    const { times, first } = window
    const allowed = times.length - first < limit
    if (allowed) times.push(now)
    const counted = times.length - first
    return {
      allowed,
      limit,
      remaining: Math.max(0, limit - counted),
      retryAfterMs: allowed ? 0 : (times[times.length - limit] ?? now) + WINDOW_MS - now,
      resetMs: (times.at(-1) ?? now) + WINDOW_MS - now,
    }
  }

  /** The requests of the last minute. What is over is taken out now and then: each time would move all that is left. */
  #window(key: string, now: number): Window {
    const window = this.#windows.get(key) ?? { times: [], first: 0 }
    const { times } = window
    if (times.length === 0) this.#windows.set(key, window)
    while (window.first < times.length && times[window.first]! <= now - WINDOW_MS) window.first++
    if (window.first > times.length / 2) {
      times.splice(0, window.first)
      window.first = 0
    }
    return window
  }

  async close(): Promise<void> {}
}
