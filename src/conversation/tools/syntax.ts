import type { TriggeredTagsConstraint } from '../../inference/contract/constraint.ts'
import type { TextPart } from '../../inference/contract/parts.ts'
import type { Tool } from '../request/tool.ts'

/** How a family of models writes tool calls. */
export interface ToolSyntax {
  /** What every call begins with. */
  readonly begin: string
  /** Marks around calls. They are never part of a reply's text. */
  readonly around?: readonly string[]
  /** Marks of the syntax: what others wrote must not be read as one of them. */
  readonly marks: readonly string[]
  /** Reads one call, from behind `begin`. */
  readCall(tools: readonly Tool[]): CallReader
  /**
   * Free text and calls of these tools; with `single`, the text ends with the first call.
   * @param isFirst whether the reply may only begin with a call.
   */
  constraint(tools: readonly Tool[], single: boolean, isFirst?: boolean): TriggeredTagsConstraint
  /**
   * Given for models that write each reply as messages in channels: the header of the message that answers. Behind it, the
   * model calls no function.
   */
  readonly answer?: string
  /** Calls as a turn's text, for templates that take none. */
  write?(calls: readonly WrittenCall[]): TextPart[]
  /** The id that a call has in prompts, where models expect a form; the index counts the calls of a conversation. */
  readonly callId?: (index: number, name: string) => string
}

export interface WrittenCall {
  readonly name: string
  /** A client's text, which should be JSON. */
  readonly arguments: string
}

/** A call, or a list of calls that have one beginning, as the text comes. */
export interface CallReader {
  push(text: string): CallStep
}

export interface CallStep {
  readonly events: readonly CallEvent[]
  /**
   * Open while more text is needed. Ended with the text that is no longer part of the call; refused when what came so
   * far is no call, which only happens before its first event.
   */
  readonly state: 'open' | { readonly ended: string } | 'refused'
}

export type CallEvent =
  | { readonly type: 'call'; readonly name: string }
  /** Some of the arguments of the latest call; together they are JSON text. */
  | { readonly type: 'arguments'; readonly text: string }

export const OPEN: CallStep = { events: [], state: 'open' }
export const REFUSED: CallStep = { events: [], state: 'refused' }
