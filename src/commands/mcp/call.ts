import type { ServerContext } from '@modelcontextprotocol/server'
import type { AllowedMedia, Holder } from './allowed-media.ts'

/** A call of a tool, as what it does sees it. */
export interface Call extends Holder {
  /** The files that may be looked at. */
  readonly media: AllowedMedia
  /** Fires when the client has cancelled the call, or has left. */
  readonly signal: AbortSignal
  /** What is being done, for a client that wants to know. */
  say(stage: string): void
}

/** So often a client hears of its call: many give up on one of which they hear nothing for a minute. */
const BEAT_MS = 1_000

/** Tells a client that has asked for it how far a call is: the seconds so far, and what is being done. */
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

/** The signal of a call. Over HTTP it also fires when the connection ends that the result would take. */
export function signalOf({ mcpReq, http }: ServerContext): AbortSignal {
  const left = http?.req?.signal
  return left === undefined ? mcpReq.signal : AbortSignal.any([mcpReq.signal, left])
}
