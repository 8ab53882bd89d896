import type { DecodeResult, DecodeTask } from './decoding/protocol.ts'

/** One task on its way through the decoders. */
export interface DecodeJob {
  /** Ascending in order of arrival. */
  readonly id: number
  readonly organisation: string
  readonly task: DecodeTask
  /** Names the input in errors. */
  readonly param: string
  readonly signal: AbortSignal
  /** Processes that ended while they had it, for no reason that they gave. */
  losses: number
  readonly resolve: (result: DecodeResult) => void
  readonly reject: (error: Error) => void
}

/** What a task is called in errors. */
export const NOUNS: Readonly<Record<DecodeTask['type'], string>> = { image: 'picture', video: 'video', audio: 'sound' }

export function reasonOf({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new Error('Aborted', { cause: reason })
}
