import type { Message, UserMessage } from './message.ts'
import type { ReplyOptions } from './reply-options.ts'

/** A multilook as parsed at the door: many prompts, each asked by itself about one context. */
export interface MultilookRequest extends ReplyOptions {
  readonly context: readonly Message[]
  /** Each is what the user says in a turn of its own after the context. At least one. */
  readonly prompts: readonly UserMessage['content'][]
  /** Completions per prompt. */
  readonly n: number
}
