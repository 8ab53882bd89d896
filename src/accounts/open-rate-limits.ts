import type { LimitChanges } from '../config/rate-limits.ts'
import { type Clock, LocalRateLimits, type RateLimits } from './rate-limits.ts'

/**
 * @param redisUrl null to count in this process.
 * @throws Error that says in one line why Redis does not answer.
 */
export async function openRateLimits(
  redisUrl: string | null,
  changes: LimitChanges,
  clock?: Clock,
): Promise<RateLimits> {
  if (redisUrl === null) return new LocalRateLimits(changes, clock)
  // Loaded only if it is used.
  const { RedisRateLimits } = await import('./redis-rate-limits.ts')
  return RedisRateLimits.open(redisUrl, changes)
}
