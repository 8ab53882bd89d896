import { numberOf, orNull, recordOf } from '../session/shape.ts'
import { counted, millisecondsText } from '../widgets/quantities.ts'
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
  /** How often the context was read; once where nothing else is said. */
  readonly readings?: number
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
export function sharingOf({ usage, questions, failed, readings = 1 }: LookFacts): LookSharing | null {
  const { prompt_tokens: all = 0, prompt_tokens_details: details } = usage ?? {}
  const reused = details?.cached_tokens ?? 0
  if (reused === 0) return null
  // The reused tokens are the context of all questions that ran but the first of each reading. Whether a failed one ran,
  // the reply does not say.
  const context = failed === 0 ? reused / (questions - readings) : null
  // Readings have instructions of their own, so that their contexts differ by some tokens.
  const whole = readings > 1 && context !== null ? Math.round(context) : context
  return { context: Number.isInteger(whole) ? whole : null, all, computed: all - reused }
}

/** The figures in a line. @param what the answers are called, in the singular */
export function factsText(facts: LookFacts, what: string): string {
  const { usage, answers, failed, milliseconds, readings = 1 } = facts
  const context = sharingOf(facts)?.context ?? null
  const times = readings === 1 ? 'once: ' : `${readings === 2 ? 'twice' : `${readings} times`}: ~`
  const read =
    context === null
      ? counted(usage?.prompt_tokens ?? 0, 'prompt token')
      : `Context read ${times}${counted(context, 'token')}`
  const parts = [read, counted(answers, what), millisecondsText(milliseconds)]
  return (failed === 0 ? parts : [...parts, `${failed} failed`]).join(' · ')
}

/** What a session kept of them. */
export function readFacts(value: unknown): LookFacts {
  const { usage, questions: asked, failed, answers, milliseconds, readings } = recordOf(value)
  return {
    usage: orNull(usage, (given) => {
      const { prompt_tokens, completion_tokens, prompt_tokens_details: details } = recordOf(given)
      return {
        prompt_tokens: numberOf(prompt_tokens),
        completion_tokens: numberOf(completion_tokens),
        prompt_tokens_details: { cached_tokens: numberOf(recordOf(details).cached_tokens) },
      }
    }),
    questions: numberOf(asked),
    failed: numberOf(failed),
    answers: numberOf(answers),
    milliseconds: numberOf(milliseconds),
    ...(readings === undefined ? {} : { readings: numberOf(readings) }),
  }
}
