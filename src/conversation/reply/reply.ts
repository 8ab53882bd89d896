import type { ServedModel } from '../../inference/catalog/registry.ts'
import type {
  CompletionId,
  FinishEvent,
  Generation,
  PromptUsage,
  TextEvent,
  TokenLogProb,
} from '../../inference/contract/generation.ts'
import { internalError } from '../../lib/errors.ts'
import type { Deadline } from '../request/deadline.ts'
import { type CompletionFinish, type CompletionParts, CompletionReader } from './completion-reader.ts'
import { joinPieces, type ReplyPiece } from './reply-piece.ts'
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
   * Those of the completion that are reasoning. The token that ends a thought counts as the reply's. They are too few where an
   * engine does not tell tokens apart.
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
  /** How the model's text is split into pieces. */
  readonly completion: CompletionParts
  /** Texts before which the reply ends. */
  readonly stops: readonly string[]
}

/**
 * Assembles the reply of a generation with one completion, whose branches are its parts. At the deadline, the reply ends with the text
 * so far and the reason `length`, as if it had run out of tokens. A stop sequence ends the work as well.
 * @throws ApiError when the engine fails, and 504 when the deadline passes before the first text.
 */
export async function* assembleReply(source: ReplySource): AsyncGenerator<ReplyEvent, void, void> {
  const { generation, deadline } = source
  const assembler = new ReplyAssembler(source)
  try {
    for await (const event of generation.events) {
      if (event.type === 'error') throw event.error
      // Not `yield*`, which would wait several times for each piece.
      for (const made of assembler.take(event)) yield made
      if (assembler.hasEnded) return
    }
    throw endedEarly()
  } catch (error) {
    if (!deadline.caused(error) || !assembler.hasText) throw error
    if (!assembler.isSingle) assembler.settle({ completion: 0 })
    yield* assembler.cutOff(assembler.isSingle ? generation.computedTokens() : assembler.tokens)
  }
}

/** An event of one of several replies. They are numbered from 0. */
export interface ChoiceEvent {
  readonly choice: number
  readonly event: ReplyEvent
}

export interface ChoicesSource extends Omit<ReplySource, 'completion'> {
  /** One for each reply. */
  readonly completions: readonly CompletionParts[]
}

/**
 * Assembles the replies of a generation with several completions, each with a finish of its own. A reply that
 * meets a stop sequence ends; the work ends with the last one. At the deadline, all that have not ended do so with the reason
 * `length`.
 * @throws ApiError as `assembleReply` does, for all of them.
 */
export async function* assembleChoices(source: ChoicesSource): AsyncGenerator<ChoiceEvent, void, void> {
  const { generation, deadline, completions } = source
  const assemblers = completions.map((completion) => new ReplyAssembler({ ...source, completion }))
  try {
    for await (const event of generation.events) {
      if (event.type === 'error') throw event.error
      const choice = event.completion
      const assembler = assemblers[choice]!
      if (assembler.hasEnded) continue
      for (const made of assembler.take(event)) yield { choice, event: made }
      if (assemblers.every(({ hasEnded }) => hasEnded)) return
    }
    throw endedEarly()
  } catch (error) {
    if (!deadline.caused(error) || assemblers.every(({ hasText }) => !hasText)) throw error
    for (const [choice, assembler] of assemblers.entries()) {
      if (assembler.hasEnded) continue
      assembler.settle({ completion: choice })
      for (const event of assembler.cutOff(assembler.tokens)) yield { choice, event }
    }
  }
}

function endedEarly(): Error {
  return internalError(new Error('The engine ended a completion without a finish event'))
}

/** Makes the events of one reply from those of the engine. */
class ReplyAssembler {
  readonly #source: Pick<ReplySource, 'generation' | 'model' | 'completion' | 'stops'>
  readonly #reader: CompletionReader
  readonly #cutter: StopCutter
  #calls = 0
  hasEnded = false

  constructor(source: Pick<ReplySource, 'generation' | 'model' | 'completion' | 'stops'>) {
    this.#source = source
    this.#reader = new CompletionReader(source.completion, source.stops.length > 0)
    this.#cutter = new StopCutter(source.stops)
  }

  get isSingle(): boolean {
    return this.#reader.isSingle
  }

  /** Of its texts so far. */
  get tokens(): number {
    return this.#reader.tokens
  }

  get hasText(): boolean {
    return this.tokens > 0
  }

  /** Has the generation count what was read, of all branches. */
  settle({ completion }: Pick<CompletionId, 'completion'>): void {
    for (const [branch, count] of this.#reader.counts.entries()) {
      this.#source.generation.settle({ branch, completion }, count)
    }
  }

  take(event: TextEvent | FinishEvent): readonly ReplyEvent[] {
    const pieces: ReplyPiece[] = []
    for (const { pieces: read, finish } of this.#reader.take(event.branch, event)) {
      for (const piece of this.#cut(read)) pieces.push(piece)
      if (finish !== undefined) pieces.push(...this.#cutter.end())
      const { found } = this.#cutter
      // What was computed behind it is no part of the reply, and is not counted.
      if (found !== null) return [...joinPieces(pieces), this.#stopped(found, event)]
      if (finish !== undefined) return [...joinPieces(pieces), this.#finished(finish, event)]
    }
    return joinPieces(pieces)
  }

  /** Ends the reply with the text so far. */
  cutOff(completionTokens: number): readonly ReplyEvent[] {
    const pieces = [...this.#cut(this.#reader.cutOff()), ...this.#cutter.end()]
    return [...pieces, this.#ended({ reason: 'length', usage: this.#usage(completionTokens), ...this.#rest() })]
  }

  #finished(finish: CompletionFinish, completion: CompletionId): ReplyFinish {
    if (!this.isSingle) this.settle(completion)
    const usage = this.#usage(finish.completionTokens)
    return this.#ended({ reason: finishReason(finish, this.#calls), usage, ...this.#rest() })
  }

  #cut(pieces: readonly ReplyPiece[]): readonly ReplyPiece[] {
    const kept = this.#source.stops.length === 0 ? pieces : pieces.flatMap((piece) => this.#cutter.push(piece))
    for (const { type } of kept) if (type === 'tool_call') this.#calls++
    return kept
  }

  #stopped(stoppedBy: string, completion: CompletionId): ReplyFinish {
    this.settle(completion)
    const reason = this.#calls > 0 ? 'tool_calls' : 'stop'
    return this.#ended({ reason, usage: this.#usage(this.tokens), stoppedBy })
  }

  #ended(finish: Omit<ReplyFinish, 'type'>): ReplyFinish {
    this.hasEnded = true
    return { type: 'finish', ...finish }
  }

  #rest(): Pick<ReplyFinish, 'logProbs'> {
    const logProbs = this.#cutter.found === null ? [...this.#cutter.rest, ...this.#reader.rest] : []
    return logProbs.length === 0 ? {} : { logProbs }
  }

  #usage(completionTokens: number): Usage {
    const { generation, model } = this.#source
    return usageOf(generation, model, { completionTokens, reasoningTokens: this.#reader.reasoningTokens })
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
export function finishReason({ reason, thoughtInterrupted }: CompletionFinish, calls: number): FinishReason {
  if (reason === 'length') return 'length'
  if (calls > 0) return 'tool_calls'
  return thoughtInterrupted ? 'interrupted' : 'stop'
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

/** Puts a reply together from its events. */
export class ReplyCollector {
  readonly #message = new MessageCollector()
  readonly #logProbs: TokenLogProb[] = []

  /** @returns the reply, with its last event; null before. */
  take(event: ReplyEvent): WholeReply | null {
    if (event.logProbs !== undefined) this.#logProbs.push(...event.logProbs)
    if (event.type === 'finish') return { ...this.#message.message, logProbs: this.#logProbs, finish: event }
    this.#message.add(event)
    return null
  }
}

/** The usage of several replies to one prompt, which counts once. */
export function totalUsage(finishes: readonly ReplyFinish[]): Usage {
  const sum = (count: (usage: Usage) => number) => finishes.reduce((total, { usage }) => total + count(usage), 0)
  return {
    ...finishes[0]!.usage,
    completionTokens: sum(({ completionTokens }) => completionTokens),
    reasoningTokens: sum(({ reasoningTokens }) => reasoningTokens),
  }
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
  if (generation.prompts.length === 0) throw internalError(new Error('The engine reported no prompt usage'))
  const { promptTokens, imageTokens, audioTokens } = totalPrompt(generation.prompts)
  return {
    promptTokens,
    imageTokens,
    audioTokens: model.served.modalities.includes('audio') ? audioTokens : null,
    ...counted,
  }
}

/** What the prompts of all branches take. */
export function totalPrompt(prompts: readonly PromptUsage[]): PromptUsage {
  const sum = (count: (prompt: PromptUsage) => number) => prompts.reduce((total, prompt) => total + count(prompt), 0)
  return {
    promptTokens: sum(({ promptTokens }) => promptTokens),
    imageTokens: sum(({ imageTokens }) => imageTokens),
    audioTokens: sum(({ audioTokens }) => audioTokens),
    cachedTokens: sum(({ cachedTokens }) => cachedTokens),
  }
}
