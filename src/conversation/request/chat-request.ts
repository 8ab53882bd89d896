import type { Message } from './message.ts'
import type { ReplyOptions } from './reply-options.ts'
import type { Tool } from './tool.ts'

/** A chat as parsed at the door: well-formed, not yet known to suit the model. */
export interface ChatRequest extends ReplyOptions {
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[]
  /** What the client says about tools; without any it says nothing. */
  readonly toolUse: ToolUse
  /** What the whole reply must look like; null for no matter what. */
  readonly structure: Structure | null
}

/** A structure of the reply: a pattern that it matches from end to end, or a schema that it satisfies as JSON. */
export type Structure =
  | { readonly type: 'regex'; readonly pattern: string }
  | { readonly type: 'json_schema'; readonly schema: unknown }
  /** Any JSON object. The client's own text says what is to be in it. */
  | { readonly type: 'json_object' }

export interface ToolUse {
  /** With `required`, or the name of a function, the reply is a call. */
  readonly choice: 'auto' | 'none' | 'required' | { readonly name: string }
  /** Whether one reply may hold several calls. */
  readonly parallel: boolean
}
