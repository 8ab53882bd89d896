import { counted } from '../widgets/quantities.ts'
import { Failure } from './failure.ts'
import { serverIsBack } from './server-watch.ts'

/** Why a call waits. */
export interface Wait {
  readonly seconds: number
  readonly failure: Failure
}

/** For a person, in a sentence; without the seconds, for who would hear them read out one by one. */
export function waitText({ seconds, failure }: Wait, isSpoken = false): string {
  if (failure.kind === 'offline') return 'The server does not answer. This continues as soon as it is back.'
  const reason = failure.status === 429 ? 'The request limit is reached.' : 'The server is busy.'
  const when = isSpoken ? 'a moment' : counted(seconds, 'second')
  return `${reason} Trying again in ${when}.`
}

/** A server that wants to be left alone for longer has no room this month rather than this minute. */
const MOST_SECONDS = 15 * 60

/**
 * Calls again as long as the server is too busy, when it says, or does not answer, when it is back.
 * @param onWait told what it waits for and the seconds that are left, each second; null when it goes on. While the server
 *   does not answer, it is asked each second.
 * @throws what else `call` throws; DOMException `AbortError` when aborted while waiting.
 */
export async function withPatience<Value>(
  call: () => Promise<Value>,
  onWait: (wait: Wait | null) => void,
  signal: AbortSignal,
): Promise<Value> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof Failure) || !isPassing(error)) throw error
      if (error.kind === 'offline') {
        onWait({ seconds: 1, failure: error })
        await serverIsBack(signal)
      } else {
        for (let left = Math.max(1, Math.ceil(error.retryAfter ?? 1)); left > 0; left--) {
          onWait({ seconds: left, failure: error })
          await second(signal)
        }
      }
      onWait(null)
    }
  }
}

function isPassing({ kind, retryAfter }: Failure): boolean {
  return kind === 'offline' || (kind === 'busy' && (retryAfter ?? 1) <= MOST_SECONDS)
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
