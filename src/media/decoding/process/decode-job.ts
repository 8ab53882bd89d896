import type { DecodeResult, DecodeTask } from './protocol.ts'

/** A decode task and its caller. */
export interface DecodeJob {
  /** Ascending in order of arrival. */
  readonly id: number
  readonly organisation: string
  readonly task: DecodeTask
  /** Names the input in errors. */
  readonly param: string
  readonly signal: AbortSignal
  /** Number of processes that ended without a reply while they had this job. */
  losses: number
  readonly resolve: (result: DecodeResult) => void
  readonly reject: (error: Error) => void
}

export function reasonOf({ reason }: AbortSignal): Error {
  return reason instanceof Error ? reason : new Error('Aborted', { cause: reason })
}
