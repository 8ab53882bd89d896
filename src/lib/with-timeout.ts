import { setTimeout as delay } from 'node:timers/promises'

/** What the work resolves with, or `otherwise` when that takes longer. No timer is left behind. */
export async function withTimeout<Result, Otherwise>(
  milliseconds: number,
  work: Promise<Result>,
  otherwise: Otherwise,
): Promise<Result | Otherwise> {
  const waiting = new AbortController()
  const late = delay(milliseconds, otherwise, { signal: waiting.signal })
  late.catch(() => {})
  try {
    return await Promise.race([work, late])
  } finally {
    waiting.abort()
  }
}
