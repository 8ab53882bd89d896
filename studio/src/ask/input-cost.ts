import { effect, signal } from '@preact/signals'
import { attachments } from '../media/attachments.ts'
import { callJson } from '../server/call.ts'
import { key, model } from '../server/connection.ts'
import { Failure } from '../server/failure.ts'
import { bodyOf, draft, nextTurn, options, turns } from './conversation.ts'

/*
 * What the draft would cost if it were sent now. The server counts; it is asked when the user pauses. Where it does not
 * count, or refuses, nothing is shown: the reply will say why.
 */

interface InputCost {
  readonly tokens: number
  /** Whether the server could only guess. */
  readonly isEstimate: boolean
}

export const inputCost = signal<InputCost | null>(null)

const PAUSE_MS = 500
/** More than this is not sent merely to be counted. */
const MOST_MEDIA_BYTES = 8 * 2 ** 20

/** Each count is a request to the rate limit: where that is reached, questions come first. */
let countsFrom = 0
const PAUSE_AT_LIMIT_MS = 60_000

/** Keeps `inputCost` up to date. @returns a function that stops it. */
export function watchInputCost(): () => void {
  return effect(() => {
    const isWanted = draft.value.trim() !== '' && model.value !== null && key.value !== null
    const media = [...turns.value.flatMap((turn) => turn.media), ...attachments.value]
    const bytes = media.reduce((sum, { blob }) => sum + blob.size, 0)
    // Read so that a change is counted again.
    void options.value
    inputCost.value = null
    if (!isWanted || performance.now() < countsFrom || bytes > MOST_MEDIA_BYTES) return
    const abort = new AbortController()
    const timer = setTimeout(() => void count(abort.signal), PAUSE_MS)
    return () => {
      clearTimeout(timer)
      abort.abort()
    }
  })
}

async function count(signal: AbortSignal): Promise<void> {
  const turn = nextTurn()
  if (turn === null) return
  try {
    const body = await bodyOf(turn)
    if (signal.aborted) return
    const path = '/v1/chat/completions/input_tokens'
    const counted = await callJson<{ input_tokens: number; estimated?: boolean }>(path, {
      method: 'POST',
      body,
      signal,
      noted: false,
    })
    if (!signal.aborted) inputCost.value = { tokens: counted.input_tokens, isEstimate: counted.estimated === true }
  } catch (error) {
    if (!(error instanceof Failure)) return
    if (error.kind === 'busy') countsFrom = performance.now() + PAUSE_AT_LIMIT_MS
    if (error.status === 404 && error.code !== 'model_not_found') countsFrom = Number.POSITIVE_INFINITY
  }
}
