import type { Message, UserMessage } from './message.ts'
import type { ReplyOptions } from './reply-options.ts'

/** A parsed multilook request: prompts that are answered independently over a shared context. */
export interface MultilookRequest extends ReplyOptions {
  readonly context: readonly Message[]
  /** At least one. Each is the content of a final user turn after the context. */
  readonly prompts: readonly UserMessage['content'][]
  /** Whether the client reads the completions while they are computed. */
  readonly streamed: boolean
  /** Completions per prompt. */
  readonly n: number
}
