import type { Names } from '../../lib/errors/param.ts'
import type { Structure } from './chat-request.ts'
import type { ReplyOptions } from './reply-options.ts'

/**
 * Texts for the model to continue, unchanged: without a template, and with the control tokens that the client writes.
 */
export interface TextRequest extends Pick<ReplyOptions, 'maxTokens' | 'maxTokensParam' | 'sampling' | 'topLogProbs'> {
  /** Texts or tokens: at least one, none of them empty. */
  readonly prompts: readonly (string | readonly number[])[]
  /** Whether each completion begins with its prompt; with `topLogProbs`, log-probabilities include the prompt's. */
  readonly echo: boolean
  /** The number of completions of each prompt. */
  readonly choices: number
  /** Texts before which a completion ends, none of them empty. */
  readonly stops: readonly string[]
  /** Null for free text. */
  readonly structure: Structure | null
  /** What the client calls the parameters of the structure. */
  readonly names: Names
  /** Whether the client reads the completions as they are generated. */
  readonly streamed: boolean
}
