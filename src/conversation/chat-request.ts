import type { Message } from './message.ts'
import type { ReplyOptions } from './reply-options.ts'

/** A chat as parsed at the door: well-formed, not yet known to suit the model. */
export interface ChatRequest extends ReplyOptions {
  readonly messages: readonly Message[]
  readonly tools: readonly unknown[]
  /** What the whole reply must look like; null for no matter what. */
  readonly structure: Structure | null
}

/** A structure of the reply: a pattern that it matches from end to end, or a schema that it satisfies as JSON. */
export type Structure =
  | { readonly type: 'regex'; readonly pattern: string }
  | { readonly type: 'json_schema'; readonly schema: unknown }
