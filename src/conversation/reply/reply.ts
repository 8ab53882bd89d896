import type { TokenLogProb } from '../../inference/contract/generation.ts'
import { internalError } from '../../lib/errors/errors.ts'
import type { RatedPlace } from './grounding.ts'
import type { ReplyPiece } from './reply-piece.ts'
import type { Usage } from './usage.ts'

/** An event of a streamed reply: pieces, and one finish at the end. */
export type ReplyEvent = ReplyPiece | ReplyFinish

export interface ReplyFinish {
  readonly type: 'finish'
  readonly reason: FinishReason
  readonly usage: Usage
  /** The stop sequence that ended the reply, if any. */
  readonly stoppedBy?: string
  /** Log-probabilities of the tokens that no piece has carried. */
  readonly logProbs?: readonly TokenLogProb[]
  /** The token with which the model ended its only completion, if the engine reports it. */
  readonly end?: TokenLogProb
  /** The places in the text, in order; absent if they are not rated. */
  readonly places?: readonly RatedPlace[]
}

/**
 * `interrupted`: the reasoning used up its budget and was ended; the reply after it is complete. `tool_error` and
 * `tool_limit`: a call of the focus tool failed, or exceeded the limit.
 */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'tool_error' | 'tool_limit' | 'interrupted'

/** A model's message in one turn. */
export interface ReplyMessage {
  readonly text: string
  /** Empty without reasoning. */
  readonly reasoning: string
  readonly toolCalls: readonly ReplyToolCall[]
}

interface ReplyToolCall {
  readonly id: string
  readonly name: string
  /** JSON text; incomplete if the reply was truncated. */
  readonly arguments: string
}

export interface WholeReply extends ReplyMessage {
  /** Log-probabilities of its tokens, without the reasoning; empty unless the request asks for them. */
  readonly logProbs: readonly TokenLogProb[]
  readonly finish: ReplyFinish
}

/** An event of one of several replies. They are numbered from 0. */
export interface ChoiceEvent {
  readonly choice: number
  readonly event: ReplyEvent
}

/** Collects a streamed reply. */
export async function collectReply(events: AsyncIterable<ReplyEvent>): Promise<WholeReply> {
  const collector = new ReplyCollector()
  for await (const event of events) {
    const reply = collector.take(event)
    if (reply !== null) return reply
  }
  throw internalError(new Error('A reply ended without a finish event'))
}

/** Assembles a reply from its events. */
export class ReplyCollector {
  #text = ''
  #reasoning = ''
  readonly #toolCalls: { id: string; name: string; arguments: string }[] = []
  /** Log-probabilities of its tokens, without the reasoning; empty unless the request asks for them. */
  readonly logProbs: TokenLogProb[] = []

  get message(): ReplyMessage {
    return { text: this.#text, reasoning: this.#reasoning, toolCalls: this.#toolCalls }
  }

  /** Adds an event. @returns the reply after the last event; null before that. */
  take(event: ReplyEvent): WholeReply | null {
    this.add(event)
    return event.type === 'finish' ? { ...this.message, logProbs: this.logProbs, finish: event } : null
  }

  add(event: ReplyEvent): void {
    if (event.logProbs !== undefined) this.logProbs.push(...event.logProbs)
    if (event.type === 'text') this.#text += event.text
    else if (event.type === 'reasoning') this.#reasoning += event.text
    else if (event.type === 'tool_call')
      this.#toolCalls[event.index] = { id: event.id, name: event.name, arguments: '' }
    else if (event.type === 'tool_arguments') this.#toolCalls[event.index]!.arguments += event.text
  }
}
