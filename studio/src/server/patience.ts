import { Failure } from './failure.ts'

/**
 * Calls again as long as the server is too busy, when it says.
 * @param onWait told the seconds that are left, each second; null when it goes on.
 * @throws what `call` throws, other than that the server is busy; DOMException `AbortError` when aborted while waiting.
 */
export async function withPatience<Value>(
  call: () => Promise<Value>,
  onWait: (seconds: number | null, failure: Failure) => void,
  signal: AbortSignal,
): Promise<Value> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof Failure) || error.kind !== 'busy') throw error
      for (let left = Math.max(1, Math.ceil(error.retryAfter ?? 1)); left > 0; left--) {
        onWait(left, error)
        await second(signal)
      }
      onWait(null, error)
    }
  }
}

function second(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer)
      reject(new DOMException('Aborted', 'AbortError'))
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop)
      resolve()
    }, 1000)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
}
