import type { Principal } from './principal.ts'

/** Requests per minute that an organisation may make, by class of endpoints. */
export const REQUESTS_PER_MINUTE = {
  chat: 300,
  multilook: 150,
  detect: 300,
  models: 30,
  file_upload: 60,
  file_list: 100,
  file_retrieve: 100,
  file_content: 30,
  file_delete: 100,
} as const
export type Bucket = keyof typeof REQUESTS_PER_MINUTE
export const BUCKETS = Object.keys(REQUESTS_PER_MINUTE) as readonly Bucket[]

/** What differs from the contract's limits. */
export type LimitChanges = Readonly<Partial<Record<Bucket, number>>>

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

/** Counts in this process. */
export class LocalRateLimits implements RateLimits {
  readonly #clock: Clock
  readonly #changes: LimitChanges
  /** Times of the requests of the last minute, oldest first. */
  readonly #windows = new Map<string, number[]>()

  constructor(changes: LimitChanges = {}, clock: Clock = () => performance.now()) {
    this.#changes = changes
    this.#clock = clock
  }

  take(principal: Principal, bucket: Bucket): Allowance {
    const now = this.#clock()
    const limit = limitOf(principal, bucket, this.#changes)
    const times = this.#window(`${bucket} ${principal.organisation}`, now)
    const allowed = times.length < limit
    if (allowed) times.push(now)
    return {
      allowed,
      limit,
      remaining: Math.max(0, limit - times.length),
      retryAfterMs: allowed ? 0 : (times[times.length - limit] ?? now) + WINDOW_MS - now,
      resetMs: (times.at(-1) ?? now) + WINDOW_MS - now,
    }
  }

  #window(key: string, now: number): number[] {
    const times = this.#windows.get(key) ?? []
    if (times.length === 0) this.#windows.set(key, times)
    const begin = now - WINDOW_MS
    if (times.length > 0 && times[0]! <= begin) {
      const first = times.findIndex((time) => time > begin)
      times.splice(0, first < 0 ? times.length : first)
    }
    return times
  }

  async close(): Promise<void> {}
}
