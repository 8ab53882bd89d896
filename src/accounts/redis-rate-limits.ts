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
 * The same window as in one process, by the clock of Redis: sorted sets of the times of the last minute's requests and of
 * promises, in microseconds. Returns whether the request is within the limit, how many are counted with it, and the
 * milliseconds after which a refused one would be admitted.
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
  redis.call('zremrangebyscore', KEYS[2], '-inf', string.format('%.0f', now))
  local promised = redis.call('zcard', KEYS[2])
  local index = count + promised - limit
  local before = redis.call('zrange', KEYS[1], index, index, 'withscores')
  local free = before[2] and before[2] + window or now + window
  if free >= now + window then return {0, count, seconds * 1000} end
  redis.call('zadd', KEYS[2], string.format('%.0f', free), string.format('%.0f-%d', free, promised))
  redis.call('expire', KEYS[2], seconds)
  return {0, count, math.ceil((free - now) / 1000)}
end
redis.call('zadd', KEYS[1], string.format('%.0f', now), string.format('%.0f-%d', now, count))
redis.call('expire', KEYS[1], seconds)
return {1, count + 1, 0}
`

declare module 'ioredis' {
  interface RedisCommander<Context> {
    countRequest(
      requests: string,
      promises: string,
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
    redis.defineCommand('countRequest', { numberOfKeys: 2, lua: COUNT_REQUEST })
    this.#redis = redis
    this.#changes = changes
  }

  /** @throws Error that says in one line why Redis does not answer. */
  static async open(url: string, changes: LimitChanges): Promise<RedisRateLimits> {
    const redis = new Redis(url, {
      lazyConnect: true,
      connectTimeout: CONNECT_TIMEOUT_MS,
      commandTimeout: COMMAND_TIMEOUT_MS,
      // A connection that the network has lost would time out for a quarter of an hour, though a new one may work.
      socketTimeout: COMMAND_TIMEOUT_MS,
      // After a failover, the address leads to another server.
      reconnectOnError: ({ message }) => message.includes('READONLY'),
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
    // In the same slot of a cluster. Redis may let this user have only keys that begin with `lookout:`.
    const promises = `lookout:promises:{${key}}`
    try {
      const [allowed, counted, retryAfterMs] = await this.#redis.countRequest(key, promises, WINDOW_MS / 1000, limit)
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
