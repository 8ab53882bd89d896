import { signal } from '@preact/signals'
import type { AnswerOptions } from '../server/answer-options.ts'
import type { AnnotationFormat } from '../widgets/fields/formats.ts'

/** What goes with all questions. */
export interface LookOptions extends AnswerOptions {
  /** Completions of each question. */
  readonly n: number
  readonly format: AnnotationFormat
  /** Text that all questions share, behind the media. */
  readonly context: string
}

export const DEFAULT_LOOK: LookOptions = {
  n: 1,
  temperature: null,
  maxTokens: null,
  format: '',
  thinks: false,
  context: '',
}

export const MOST_COMPLETIONS = 8
/** For all questions of a call together. */
export const MOST_ANSWERS = 64
/** At a temperature of 0, all completions would be the same, and the server refuses to make several. */
const SAMPLING_TEMPERATURE = 0.7

export const lookOptions = signal<LookOptions>(DEFAULT_LOOK)

/** Several completions bring a temperature with them, which one alone does not keep. */
export function withCompletions(options: LookOptions, n: number): LookOptions {
  const { temperature } = options
  if (n > 1) return { ...options, n, temperature: temperature || SAMPLING_TEMPERATURE }
  return { ...options, n, temperature: temperature === SAMPLING_TEMPERATURE ? null : temperature }
}
