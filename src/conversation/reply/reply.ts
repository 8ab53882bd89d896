import type { FinishEvent, Generation, TokenLogProb } from '../../inference/engine.ts'
import type { ServedModel } from '../../inference/registry.ts'
import { internalError } from '../../lib/errors.ts'
import type { Deadline } from '../request/deadline.ts'
import { LogProbReader } from './log-prob-reader.ts'
import type { ReplyPiece } from './reply-piece.ts'
import type { ReplyReader } from './reply-reader.ts'
import { StopCutter } from './stop-cutter.ts'

/** An event of a streamed reply: pieces, and one finish at the end. */
export type ReplyEvent = ReplyPiece | ReplyFinish

export interface ReplyFinish {
  readonly type: 'finish'
  readonly reason: FinishReason
  readonly usage: Usage
  /** The stop sequence that has ended the reply; absent where none has. */
  readonly stoppedBy?: string
  /** Of the tokens that no piece has carried. */
  readonly logProbs?: readonly TokenLogProb[]
}

/**
 * `interrupted`: the reasoning used up its budget and was ended; the reply after it is complete. `tool_error` and
 * `tool_limit`: a call of the focus tool failed, or exceeded the limit.
 */
export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'tool_error' | 'tool_limit' | 'interrupted'

export interface Usage {
  readonly promptTokens: number
  readonly completionTokens: number
  /** Those of the prompt that stand for images and videos. */
  readonly imageTokens: number
  /** Null for a model without audio input. */
  readonly audioTokens: number | null
  /**
   * Those of the completion that are reasoning, as far as the engine's texts tell: a text with the end of a thought counts as
   * the reply's, so with large texts they are too few.
   */
  readonly reasoningTokens: number
}

/** A model's message in one turn. */
export interface ReplyMessage {
  readonly text: string
  /** Empty without reasoning. */
  readonly reasoning: string
  readonly toolCalls: readonly ReplyToolCall[]
}

export interface ReplyToolCall {
  readonly id: string
  readonly name: string
  /** JSON text; incomplete if the reply was truncated. */
  readonly arguments: string
}

export interface WholeReply extends ReplyMessage {
  /** Of its tokens, without those of the reasoning; empty where nobody asks for them. */
  readonly logProbs: readonly TokenLogProb[]
  readonly finish: ReplyFinish
}

export interface ReplySource {
  readonly generation: Generation
  readonly model: ServedModel
  readonly deadline: Deadline
  /** Splits the model's text into pieces. */
  readonly reader: ReplyReader
  /** Texts before which the reply ends. */
  readonly stops: readonly string[]
}

/**
 * Assembles the reply of a generation with one branch and one completion. At the deadline, the reply ends with the text
 * so far and the reason `length`, as if it had run out of tokens. A stop sequence ends the work as well.
 * @throws ApiError when the engine fails, and 504 when the deadline passes before the first text.
 */
export async function* assembleReply(source: ReplySource): AsyncGenerator<ReplyEvent, void, void> {
  const { generation, model, deadline } = source
  const reader = new LogProbReader(source.reader)
  const cutter = new StopCutter(source.stops)
  let hasText = false
  let calls = 0
  let tokens = 0
  let reasoningTokens = 0
  const cut = (pieces: readonly ReplyPiece[]) => {
    const kept = source.stops.length === 0 ? pieces : pieces.flatMap((piece) => cutter.push(piece))
    for (const { type } of kept) if (type === 'tool_call') calls++
    return kept
  }
  const rest = (): Pick<ReplyFinish, 'logProbs'> => {
    const logProbs = cutter.found === null ? [...cutter.rest, ...reader.rest] : []
    return logProbs.length === 0 ? {} : { logProbs }
  }
  const stopped = (stoppedBy: string): ReplyFinish => {
    const reason = calls > 0 ? 'tool_calls' : 'stop'
    return {
      type: 'finish',
      reason,
      usage: usageOf(generation, model, { completionTokens: tokens, reasoningTokens }),
      stoppedBy,
    }
  }
  try {
    for await (const event of generation.events) {
      if (event.type === 'error') throw event.error
      if (event.type === 'text') {
        hasText = true
        tokens += event.tokens
        const pieces = cut(reader.push(event))
        if (source.reader.section === 'thought') reasoningTokens += event.tokens
        // Not `yield*`, which would wait several times for each piece.
        for (const piece of pieces) yield piece
        if (cutter.found === null) continue
        yield stopped(cutter.found)
        return
      }
      yield* cut(reader.end(event.reason === 'length'))
      yield* cutter.end()
      const usage = usageOf(generation, model, { completionTokens: event.completionTokens, reasoningTokens })
      if (cutter.found !== null) yield stopped(cutter.found)
      else yield { type: 'finish', reason: finishReason(event, calls), usage, ...rest() }
      return
    }
    throw internalError(new Error('The engine ended a completion without a finish event'))
  } catch (error) {
    if (!deadline.caused(error) || !hasText) throw error
    yield* cut(reader.end(true))
    yield* cutter.end()
    const usage = usageOf(generation, model, { completionTokens: generation.computedTokens(), reasoningTokens })
    yield { type: 'finish', reason: 'length', usage, ...rest() }
  }
}

/** Passes the events of a reply through and releases its deadline when they end, however they end. */
export async function* released<Event>(
  reply: AsyncIterable<Event>,
  deadline: Deadline,
): AsyncGenerator<Event, void, void> {
  try {
    yield* reply
  } finally {
    deadline.release()
  }
}

/** @param calls number of tool calls in the completion. */
export function finishReason({ reason, thoughtInterrupted }: FinishEvent, calls: number): FinishReason {
  if (reason === 'length') return 'length'
  if (calls > 0) return 'tool_calls'
  return thoughtInterrupted ? 'interrupted' : 'stop'
}

/** Collects a streamed reply. */
export async function collectReply(events: AsyncIterable<ReplyEvent>): Promise<WholeReply> {
  const collector = new MessageCollector()
  const logProbs: TokenLogProb[] = []
  for await (const event of events) {
    if (event.logProbs !== undefined) logProbs.push(...event.logProbs)
    if (event.type === 'finish') return { ...collector.message, logProbs, finish: event }
    collector.add(event)
  }
  throw internalError(new Error('A reply ended without a finish event'))
}

/** Joins the pieces of a reply into a message. */
export class MessageCollector {
  #text = ''
  #reasoning = ''
  readonly #toolCalls: { id: string; name: string; arguments: string }[] = []

  get message(): ReplyMessage {
    return { text: this.#text, reasoning: this.#reasoning, toolCalls: this.#toolCalls }
  }

  add(piece: ReplyPiece): void {
    switch (piece.type) {
      case 'text':
        this.#text += piece.text
        return
      case 'reasoning':
        this.#reasoning += piece.text
        return
      case 'tool_call':
        this.#toolCalls[piece.index] = { id: piece.id, name: piece.name, arguments: '' }
        return
      case 'tool_arguments':
        this.#toolCalls[piece.index]!.arguments += piece.text
    }
  }
}

function usageOf(
  generation: Generation,
  model: ServedModel,
  counted: Pick<Usage, 'completionTokens' | 'reasoningTokens'>,
): Usage {
  const prompt = generation.prompts[0]
  if (!prompt) throw internalError(new Error('The engine reported no prompt usage'))
  const audioTokens = model.served.modalities.includes('audio') ? prompt.audioTokens : null
  const { promptTokens, imageTokens } = prompt
  return { promptTokens, imageTokens, audioTokens, ...counted }
}
