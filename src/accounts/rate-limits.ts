import { type Bucket, type LimitChanges, REQUESTS_PER_MINUTE } from '../config/rate-limits.ts'
import type { Principal } from './principal.ts'

export const WINDOW_MS = 60_000

export interface Allowance {
  readonly allowed: boolean
  readonly limit: number
  readonly remaining: number
  /**
   * Milliseconds until a refused request would be allowed, at most a minute; 0 if this one was. Each place in the
   * window is promised once: otherwise, requests that are refused together would come back together, and all but one be
   * refused again.
   */
  readonly retryAfterMs: number
  /** Milliseconds until the whole limit is free again, at most. */
  readonly resetMs: number
}

/** Milliseconds of a clock that never goes back. */
export type Clock = () => number

/**
 * Counts requests over a sliding window: no 60 seconds have more requests than the limit. A refused request is not
 * counted.
 */
export interface RateLimits {
  /** @throws ApiError 503 when the service that keeps the count is unavailable. */
  take(principal: Principal, bucket: Bucket): Allowance | Promise<Allowance>
  close(): Promise<void>
}

/** The organisation's own limit, the server's, or the contract's. */
export function limitOf(principal: Principal, bucket: Bucket, changes: LimitChanges): number {
  return principal.limits.requestsPerMinute?.[bucket] ?? changes[bucket] ?? REQUESTS_PER_MINUTE[bucket]
}

/** Times in ascending order. */
class Times {
  #times: number[] = []
  /**
   * Index of the first time still in the window. Earlier ones are removed only now and then, as that moves all the
   * others.
   */
  #first = 0

  get count(): number {
    return this.#times.length - this.#first
  }

  at(index: number): number | undefined {
    return this.#times[this.#first + index]
  }

  push(time: number): void {
    this.#times.push(time)
  }

  dropUntil(time: number): void {
    while (this.count > 0 && this.#times[this.#first]! <= time) this.#first++
    if (this.#first <= this.#times.length / 2) return
    this.#times = this.#times.slice(this.#first)
    this.#first = 0
  }
}

interface Window {
  readonly requests: Times
  /** When refused requests were told to come back. All are later than now. */
  readonly promises: Times
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
    const window = this.#window(`${bucket} ${principal.organisation}`)
    const { requests } = window
    requests.dropUntil(now - WINDOW_MS)
    const allowed = requests.count < limit
    if (allowed) requests.push(now)
    return {
      allowed,
      limit,
      remaining: Math.max(0, limit - requests.count),
      retryAfterMs: allowed ? 0 : promise(window, limit, now),
      resetMs: (requests.at(requests.count - 1) ?? now) + WINDOW_MS - now,
    }
  }

  #window(key: string): Window {
    const window = this.#windows.get(key) ?? { requests: new Times(), promises: new Times() }
    this.#windows.set(key, window)
    return window
  }

  async close(): Promise<void> {}
}

/** Promises the next place, which is free a minute after an earlier request. @returns milliseconds until then. */
function promise({ requests, promises }: Window, limit: number, now: number): number {
  promises.dropUntil(now)
  const before = requests.at(requests.count + promises.count - limit) ?? now
  // Clients give up on longer waits, and a place that is not promised takes no memory.
  if (before >= now) return WINDOW_MS
  promises.push(before + WINDOW_MS)
  return before + WINDOW_MS - now
}
