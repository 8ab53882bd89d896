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
  const when = isSpoken ? 'a moment' : counted(seconds, 'second')
  return `${reasonOf(failure)} Trying again in ${when}.`
}

function reasonOf({ kind, status }: Failure): string {
  if (kind === 'unanswered') return 'The connection broke before an answer came.'
  return status === 429 ? 'The request limit is reached.' : 'The server is busy.'
}

/** A server that wants to be left alone for longer has no room this month rather than this minute. */
const MOST_SECONDS = 15 * 60
/** Before a request is sent again whose connection broke, in seconds; then it has failed. */
const UNANSWERED_PAUSES = [1, 3]

/**
 * Calls again as long as the server is too busy, when it says, or does not answer, when it is back; and a few times where a
 * connection breaks before an answer.
 * @param onWait told what it waits for and the seconds that are left, each second; null when it goes on. While the server
 *   does not answer, it is asked each second.
 * @throws what else `call` throws; DOMException `AbortError` when aborted while waiting.
 */
export async function withPatience<Value>(
  call: () => Promise<Value>,
  onWait: (wait: Wait | null) => void,
  signal: AbortSignal,
): Promise<Value> {
  const pauses = UNANSWERED_PAUSES.values()
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      if (error.kind === 'offline') {
        onWait({ seconds: 1, failure: error })
        await serverIsBack(signal)
      } else {
        const seconds = error.kind === 'unanswered' ? pauses.next().value : pauseOf(error)
        if (seconds === undefined) throw error
        for (let left = seconds; left > 0; left--) {
          onWait({ seconds: left, failure: error })
          await second(signal)
        }
      }
      onWait(null)
    }
  }
}

/** The seconds after which a busy server is asked again; undefined for other failures. */
function pauseOf({ kind, retryAfter }: Failure): number | undefined {
  const seconds = Math.max(1, Math.ceil(retryAfter ?? 1))
  return kind === 'busy' && seconds <= MOST_SECONDS ? seconds : undefined
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
