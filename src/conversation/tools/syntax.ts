import type { TriggeredTagsConstraint } from '../../inference/contract/constraint.ts'
import type { TextPart } from '../../inference/contract/parts.ts'
import type { Tool } from '../request/tool.ts'

/** How a family of models writes tool calls. */
export interface ToolSyntax {
  /** The beginning of every call. */
  readonly begin: string
  /** Marks around calls. They are never part of a reply's text. */
  readonly around?: readonly string[]
  /** Marks of the syntax. Texts of clients must not be read as one of them. */
  readonly marks: readonly string[]
  /** Reads one call, starting after `begin`. */
  readCall(tools: readonly Tool[]): CallReader
  /**
   * Allows free text and calls of these tools; with `single`, the text ends with the first call.
   * @param isFirst whether a call may only stand at the beginning of the reply.
   */
  constraint(tools: readonly Tool[], single: boolean, isFirst?: boolean): TriggeredTagsConstraint
  /**
   * The header of the answer message, for models that write each reply as messages in channels. After it, the model calls
   * no function.
   */
  readonly answer?: string
  /** Writes calls as a turn's text, for templates without support for them. */
  write?(calls: readonly WrittenCall[]): TextPart[]
  /** Makes the id of a call in prompts, if models expect a form; the index counts the conversation's calls. */
  readonly callId?: (index: number, name: string) => string
}

export interface WrittenCall {
  readonly name: string
  /** The client's text, which should be JSON. */
  readonly arguments: string
}

/** Reads a call, or a list of calls with one beginning, as the text arrives. */
export interface CallReader {
  push(text: string): CallStep
}

export interface CallStep {
  readonly events: readonly CallEvent[]
  /**
   * Open while more text is needed. Ended with the text that is no longer part of the call. Refused when the text so far
   * is not a call, which only happens before its first event.
   */
  readonly state: 'open' | { readonly ended: string } | 'refused'
}

export type CallEvent =
  | { readonly type: 'call'; readonly name: string }
  /** A piece of the latest call's arguments; all pieces together are JSON text. */
  | { readonly type: 'arguments'; readonly text: string }

export const OPEN: CallStep = { events: [], state: 'open' }
export const REFUSED: CallStep = { events: [], state: 'refused' }
