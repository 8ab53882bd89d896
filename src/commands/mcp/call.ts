import type { ServerContext } from '@modelcontextprotocol/server'
import type { AllowedMedia, Holder } from './allowed-media.ts'

/** The context of a tool call. */
export interface Call extends Holder {
  /** The files that it may use. */
  readonly media: AllowedMedia
  /** Fires when the client has cancelled the call, or has left. */
  readonly signal: AbortSignal
  /** Reports the current stage to a client that wants progress. */
  say(stage: string): void
}

/** Interval of progress reports: many clients give up on a call without progress for a minute. */
const BEAT_MS = 1_000

/** Reports progress to a client that has asked for it: the seconds so far, and the current stage. */
export function tellProgress({ mcpReq }: ServerContext): Pick<Call, 'say'> & Disposable {
  const began = performance.now()
  let message = 'Reading the media'
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return { say() {}, [Symbol.dispose]() {} }
  const beat = () => {
    const progress = Math.round((performance.now() - began) / 1000)
    // A client that has left needs no progress.
    mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, message } }).catch(() => {})
  }
  const timer = setInterval(beat, BEAT_MS).unref()
  return {
    say: (stage) => {
      message = stage
    },
    [Symbol.dispose]: () => clearInterval(timer),
  }
}

/** The signal of a call. Over HTTP, it also fires when the connection for the result ends. */
export function signalOf({ mcpReq, http }: ServerContext): AbortSignal {
  const left = http?.req?.signal
  return left === undefined ? mcpReq.signal : AbortSignal.any([mcpReq.signal, left])
}
