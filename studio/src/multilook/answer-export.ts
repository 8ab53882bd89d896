import { csvLine } from '../../../src/exports/csv.ts'
import type { Answer } from './row.ts'
import type { LookUsage } from './wire.ts'

/** A question with what came of it. */
export interface AnsweredQuestion {
  readonly question: string
  /** The model that was asked; null where it is not known. */
  readonly model: string | null
  readonly answers: readonly Answer[]
  /** Why there is no answer; null when there is one. */
  readonly error: string | null
}

/** One line for each completion, and one for each question without any. */
export function toCsv(answered: readonly AnsweredQuestion[]): string {
  const lines = answered.flatMap(({ question, answers, error }) =>
    error === null
      ? answers.map(({ text, thoughts, finishReason }, index) =>
          csvLine([question, String(index + 1), text, thoughts, finishReason ?? '', '']),
        )
      : [csvLine([question, '', '', '', '', error])],
  )
  return csvLine(['question', 'completion', 'answer', 'thoughts', 'finish_reason', 'error']) + lines.join('')
}

/**
 * Where several models answered, each result names its own.
 * @param usage of the call; null where it is not known.
 */
export function toJson(answered: readonly AnsweredQuestion[], usage: LookUsage | null): string {
  const [asked = null, ...others] = new Set(answered.map(({ model }) => model))
  const results = answered.map(({ question, model, answers, error }) => ({
    question,
    ...(others.length === 0 ? {} : { model }),
    ...(error === null
      ? {
          answers: answers.map(({ text, thoughts, finishReason }) => ({
            text,
            ...(thoughts === '' ? {} : { thoughts }),
            finish_reason: finishReason,
          })),
        }
      : { error }),
  }))
  return `${JSON.stringify({ ...(others.length === 0 ? { model: asked } : {}), results, ...(usage === null ? {} : { usage }) }, null, 2)}\n`
}

/** To read: each question, and its answers below. */
export function toText(answered: readonly AnsweredQuestion[]): string {
  return answered
    .map(({ question, answers, error }) => [question, ...(error === null ? answers.map(({ text }) => text) : [error])])
    .map((lines) => `${lines.join('\n')}\n`)
    .join('\n')
}
