import type { LookUsage } from './wire.ts'

/** What one call about several questions took: figures of the reply, and the time that the page has measured. */
export interface LookFacts {
  readonly usage: LookUsage | null
  readonly questions: number
  /** Questions without an answer. */
  readonly failed: number
  /** Completions of all questions. */
  readonly answers: number
  readonly milliseconds: number
}

export interface LookSharing {
  /** Tokens of what all questions share; null where the reply does not tell. */
  readonly context: number | null
  /** Prompt tokens that the questions have, each with the whole context: what as many separate calls would read. */
  readonly all: number
  /** Those of them that were computed. */
  readonly computed: number
}

/** What the questions saved by sharing their context; null where they shared nothing. */
export function sharingOf({ usage, questions, failed }: LookFacts): LookSharing | null {
  const { prompt_tokens: all = 0, prompt_tokens_details: details } = usage ?? {}
  const reused = details?.cached_tokens ?? 0
  if (reused === 0) return null
  // The reused tokens are the context of all questions that ran but one. Whether a failed one ran, the reply does not say.
  const context = failed === 0 ? reused / (questions - 1) : null
  return { context: Number.isInteger(context) ? context : null, all, computed: all - reused }
}
