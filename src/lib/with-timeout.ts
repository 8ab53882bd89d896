import { setTimeout as delay } from 'node:timers/promises'

/** Returns the result of the work, or `otherwise` if it takes longer. The work continues; no timer is left. */
export async function withTimeout<Result, Otherwise>(
  milliseconds: number,
  work: PromiseLike<Result>,
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
