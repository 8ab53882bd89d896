import { Redis } from 'ioredis'
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import type { Bucket, LimitChanges } from '../config/rate-limits.ts'
import { serviceUnavailable } from '../lib/errors.ts'
import type { Principal } from './principal.ts'
import { type Allowance, limitOf, type RateLimits, WINDOW_MS } from './rate-limits.ts'

const CONNECT_TIMEOUT_MS = 3_000
const COMMAND_TIMEOUT_MS = 2_000
const RECONNECT_MS = 500
const RETRY_AFTER_S = 2

/**
 * The same window as in one process, by the clock of Redis: a sorted set of the times of the last minute's requests, in
 * microseconds. The library's own script counts in windows that stand still, in which twice the limit fits a minute.
 * Returns what the library expects: the requests counted (one too many for a refused one) and the milliseconds to wait.
 */
const SLIDING_WINDOW = `
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
local window = ARGV[2] * 1000000
local limit = tonumber(ARGV[3])
redis.call('zremrangebyscore', KEYS[1], '-inf', string.format('%.0f', now - window))
local count = redis.call('zcard', KEYS[1])
if count >= limit then
  local first = redis.call('zrange', KEYS[1], count - limit, count - limit, 'withscores')
  local free = first[2] and first[2] + window or now + window
  return {limit + 1, math.ceil((free - now) / 1000)}
end
redis.call('zadd', KEYS[1], string.format('%.0f', now), string.format('%.0f-%d', now, count))
redis.call('expire', KEYS[1], ARGV[2])
return {count + 1, ARGV[2] * 1000}
`

/** Counts in Redis, for all servers that share it. */
export class RedisRateLimits implements RateLimits {
  readonly #redis: Redis
  readonly #changes: LimitChanges
  /** By bucket and limit. */
  readonly #limiters = new Map<string, RateLimiterRedis>()

  private constructor(redis: Redis, changes: LimitChanges) {
    this.#redis = redis
    this.#changes = changes
  }

  /** @throws Error that says in one line why Redis does not answer. */
  static async open(url: string, changes: LimitChanges): Promise<RedisRateLimits> {
    const redis = new Redis(url, {
      lazyConnect: true,
      connectTimeout: CONNECT_TIMEOUT_MS,
      commandTimeout: COMMAND_TIMEOUT_MS,
      // A request is not kept waiting for a Redis that is away: its client is told, and decides.
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
    try {
      const { remainingPoints } = await this.#limiter(bucket, limit).consume(principal.organisation)
      return { allowed: true, limit, remaining: remainingPoints, retryAfterMs: 0, resetMs: WINDOW_MS }
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) {
        throw serviceUnavailable('Rate limits cannot be checked now; try again later', RETRY_AFTER_S, refusal)
      }
      return { allowed: false, limit, remaining: 0, retryAfterMs: refusal.msBeforeNext, resetMs: WINDOW_MS }
    }
  }

  #limiter(bucket: Bucket, limit: number): RateLimiterRedis {
    const name = `${bucket} ${limit}`
    let limiter = this.#limiters.get(name)
    if (!limiter) {
      limiter = new RateLimiterRedis({
        storeClient: this.#redis,
        keyPrefix: `lookout:${bucket}`,
        points: limit,
        duration: WINDOW_MS / 1000,
        customIncrTtlLuaScript: SLIDING_WINDOW,
      })
      this.#limiters.set(name, limiter)
    }
    return limiter
  }

  async close(): Promise<void> {
    this.#redis.disconnect()
  }
}
