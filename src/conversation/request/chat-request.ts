import type { Compatibility } from '../../config/compatibility.ts'
import type { Names } from '../../lib/errors/param.ts'
import type { Message } from './message.ts'
import type { ReplyOptions } from './reply-options.ts'
import type { Tool } from './tool.ts'

/** A parsed chat request: well-formed, but not yet checked against the model. */
export interface ChatRequest extends ReplyOptions {
  readonly messages: readonly Message[]
  readonly tools: readonly Tool[]
  /** How the model may use the tools; has no effect without tools. */
  readonly toolUse: ToolUse
  /** The structure of the whole reply; null for free text. */
  readonly structure: Structure | null
  /** Texts before which the reply ends, none of them empty; none by default. */
  readonly stops?: readonly string[] | undefined
  /** The number of replies, for `startChoices`; one by default. */
  readonly choices?: number | undefined
  /** Whether the client reads the reply as it is generated. */
  readonly streamed: boolean
  /** The rules of the request's convention; by default those of the server. */
  readonly compatibility?: Compatibility | undefined
  /** The request's names of the parameters that errors name; by default the contract's. */
  readonly names?: Names | undefined
}

/** A structure of the reply: a pattern that matches all of it, or a schema that it satisfies as JSON. */
export type Structure =
  | { readonly type: 'regex'; readonly pattern: string }
  | { readonly type: 'json_schema'; readonly schema: unknown }
  /** Any JSON object. The client's own text describes its content. */
  | { readonly type: 'json_object' }

export interface ToolUse {
  /** With `required` or a function name, the reply must be a call. */
  readonly choice: 'auto' | 'none' | 'required' | { readonly name: string }
  /** Whether a reply may contain several calls. */
  readonly parallel: boolean
}
