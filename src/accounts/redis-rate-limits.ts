import { Redis, type Result } from 'ioredis'
import type { Bucket, LimitChanges } from '../config/rate-limits.ts'
import { serviceUnavailable } from '../lib/errors/errors.ts'
import type { Principal } from './principal.ts'
import { type Allowance, limitOf, type RateLimits, WINDOW_MS } from './rate-limits.ts'

const CONNECT_TIMEOUT_MS = 3_000
const COMMAND_TIMEOUT_MS = 2_000
const RECONNECT_MS = 500
const RETRY_AFTER_S = 2

/**
 * The same window as in one process, by the clock of Redis: a sorted set of the times of the last minute's requests, in
 * microseconds. Returns whether the request is within the limit, how many are counted with it, and the milliseconds
 * after which a refused one would be admitted.
 */
const COUNT_REQUEST = `
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
local seconds = ARGV[1]
local window = seconds * 1000000
local limit = tonumber(ARGV[2])
redis.call('zremrangebyscore', KEYS[1], '-inf', string.format('%.0f', now - window))
local count = redis.call('zcard', KEYS[1])
if count >= limit then
  local first = redis.call('zrange', KEYS[1], count - limit, count - limit, 'withscores')
  local free = first[2] and first[2] + window or now + window
  return {0, count, math.ceil((free - now) / 1000)}
end
redis.call('zadd', KEYS[1], string.format('%.0f', now), string.format('%.0f-%d', now, count))
redis.call('expire', KEYS[1], seconds)
return {1, count + 1, 0}
`

declare module 'ioredis' {
  interface RedisCommander<Context> {
    countRequest(
      key: string,
      windowSeconds: number,
      limit: number,
    ): Result<[allowed: 0 | 1, counted: number, retryAfterMs: number], Context>
  }
}

/** Counts in Redis, for all servers that share it. */
export class RedisRateLimits implements RateLimits {
  readonly #redis: Redis
  readonly #changes: LimitChanges

  private constructor(redis: Redis, changes: LimitChanges) {
    redis.defineCommand('countRequest', { numberOfKeys: 1, lua: COUNT_REQUEST })
    this.#redis = redis
    this.#changes = changes
  }

  /** @throws Error that says in one line why Redis does not answer. */
  static async open(url: string, changes: LimitChanges): Promise<RedisRateLimits> {
    const redis = new Redis(url, {
      lazyConnect: true,
      connectTimeout: CONNECT_TIMEOUT_MS,
      commandTimeout: COMMAND_TIMEOUT_MS,
      // While Redis is away, a request is refused at once instead of waiting; its client decides what to do.
      enableOfflineQueue: false,
      maxRetriesPerRequest: 0,
      retryStrategy: () => RECONNECT_MS,
    })
    let reason = ''
    redis.on('error', (error: Error) => {
      reason = error.message || String(error)
    })
    try {
      await redis.connect()
      return new RedisRateLimits(redis, changes)
    } catch (error) {
      redis.disconnect()
      throw new Error(`REDIS_URL: ${reason || (error as Error).message}`, { cause: error })
    }
  }

  async take(principal: Principal, bucket: Bucket): Promise<Allowance> {
    const limit = limitOf(principal, bucket, this.#changes)
    const key = `lookout:${bucket}:${principal.organisation}`
    try {
      const [allowed, counted, retryAfterMs] = await this.#redis.countRequest(key, WINDOW_MS / 1000, limit)
      const remaining = Math.max(0, limit - counted)
      return { allowed: allowed === 1, limit, remaining, retryAfterMs, resetMs: WINDOW_MS }
    } catch (error) {
      throw serviceUnavailable('Rate limits cannot be checked now; try again later', RETRY_AFTER_S, error)
    }
  }

  async close(): Promise<void> {
    this.#redis.disconnect()
  }
}
