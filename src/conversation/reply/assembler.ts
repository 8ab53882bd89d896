import type { ServedModel } from '../../inference/catalog/registry.ts'
import type {
  CompletionId,
  FinishEvent,
  Generation,
  TextEvent,
  TokenLogProb,
} from '../../inference/contract/generation.ts'
import { internalError } from '../../lib/errors/errors.ts'
import type { Deadline } from '../request/deadline.ts'
import { type CompletionFinish, type CompletionParts, CompletionReader } from './completion-reader.ts'
import type { ChoiceEvent, FinishReason, ReplyEvent, ReplyFinish } from './reply.ts'
import { joinPieces, type ReplyPiece } from './reply-piece.ts'
import { StopCutter } from './stop-cutter.ts'
import { type Usage, usageOf } from './usage.ts'

interface ChoicesSource {
  readonly generation: Generation
  readonly model: ServedModel
  readonly deadline: Deadline
  /** How each reply's text is split into pieces. */
  readonly completions: readonly CompletionParts[]
  /**
   * The number of completions of each branch, if branches have replies of their own, which are numbered branch by
   * branch. By default, the branches are parts of the same replies.
   */
  readonly completionsOfBranch?: number
  /** Stop sequences: the reply ends before the first of them. */
  readonly stops: readonly string[]
}

interface ReplySource extends Omit<ChoicesSource, 'completions' | 'completionsOfBranch'> {
  readonly completion: CompletionParts
}

/**
 * Assembles the reply of a generation with one completion, whose branches are its parts. At the deadline, the reply ends
 * with the text so far and the reason `length`, as if it had run out of tokens. A stop sequence ends the work as well.
 * @throws ApiError when the engine fails, and 504 when the deadline passes before the first text.
 */
export function assembleReply({ completion, ...source }: ReplySource): AsyncGenerator<ReplyEvent, void, void> {
  return assemble({ ...source, completions: [completion] }, (event) => event)
}

/**
 * Assembles the replies of a generation with several completions, each with its own finish. A reply ends at a stop
 * sequence; the work ends with the last reply. At the deadline, all open replies end with the reason `length`.
 * @throws ApiError as `assembleReply` does, for all of them.
 */
export function assembleChoices(source: ChoicesSource): AsyncGenerator<ChoiceEvent, void, void> {
  return assemble(source, (event, choice) => ({ choice, event }))
}

async function* assemble<Event>(
  source: ChoicesSource,
  numbered: (event: ReplyEvent, choice: number) => Event,
): AsyncGenerator<Event, void, void> {
  const { generation, deadline, completions, completionsOfBranch: each } = source
  const assemblers = completions.map((completion, choice) => {
    const first =
      each === undefined
        ? { branch: 0, completion: choice }
        : { branch: Math.floor(choice / each), completion: choice % each }
    return new ReplyAssembler({ ...source, completion }, first)
  })
  try {
    for await (const event of generation.events) {
      if (event.type === 'error') throw event.error
      const choice = event.completion + (each === undefined ? 0 : event.branch * each)
      const assembler = assemblers[choice]!
      if (assembler.hasEnded) continue
      // `yield*` would await several times for each piece.
      for (const made of assembler.take(event)) yield numbered(made, choice)
      if (assemblers.every(({ hasEnded }) => hasEnded)) return
    }
    throw internalError(new Error('The engine ended a completion without a finish event'))
  } catch (error) {
    if (!deadline.caused(error) || assemblers.every(({ hasText }) => !hasText)) throw error
    for (const [choice, assembler] of assemblers.entries()) {
      if (assembler.hasEnded) continue
      const isAlone = completions.length === 1 && assembler.isSingle
      if (!isAlone) assembler.settle()
      const tokens = isAlone ? generation.computedTokens() : assembler.tokens
      for (const event of assembler.cutOff(tokens)) yield numbered(event, choice)
    }
  }
}

/** Converts the engine's events to the events of one reply. */
class ReplyAssembler {
  readonly #source: Omit<ReplySource, 'deadline'>
  readonly #reader: CompletionReader
  readonly #cutter: StopCutter
  readonly #first: CompletionId
  /** Tokens of the reply, if its places are rated. */
  readonly #tokens: TokenLogProb[] = []
  #calls = 0
  hasEnded = false

  /** @param first the engine's id of the reply's first branch. */
  constructor(source: Omit<ReplySource, 'deadline'>, first: CompletionId) {
    this.#source = source
    this.#first = first
    this.#reader = new CompletionReader(source.completion, source.stops.length > 0)
    this.#cutter = new StopCutter(source.stops)
  }

  get isSingle(): boolean {
    return this.#reader.isSingle
  }

  /** Tokens of the texts so far. */
  get tokens(): number {
    return this.#reader.tokens
  }

  get hasText(): boolean {
    return this.tokens > 0
  }

  /** Reports to the generation how many tokens of each branch were read. */
  settle(): void {
    const { branch, completion } = this.#first
    for (const [part, count] of this.#reader.counts.entries()) {
      this.#source.generation.settle({ branch: branch + part, completion }, count)
    }
  }

  take(event: TextEvent | FinishEvent): readonly ReplyEvent[] {
    const pieces: ReplyPiece[] = []
    for (const { pieces: read, finish } of this.#reader.take(event.branch - this.#first.branch, event)) {
      for (const piece of this.#cut(read)) pieces.push(piece)
      if (finish !== undefined) pieces.push(...this.#noted(this.#cutter.end()))
      const { found } = this.#cutter
      // Tokens computed after the stop sequence are not part of the reply and are not counted.
      if (found !== null) return [...joinPieces(pieces), this.#stopped(found)]
      if (finish !== undefined) return [...joinPieces(pieces), this.#finished(finish)]
    }
    return joinPieces(pieces)
  }

  /** Ends the reply with the text so far. */
  cutOff(completionTokens: number): readonly ReplyEvent[] {
    const pieces = [...this.#cut(this.#reader.cutOff()), ...this.#noted(this.#cutter.end())]
    return [...pieces, this.#ended({ reason: 'length', usage: this.#usage(completionTokens), ...this.#rest() })]
  }

  #finished(finish: CompletionFinish): ReplyFinish {
    if (!this.isSingle) this.settle()
    const usage = this.#usage(finish.completionTokens)
    const { end } = finish
    return this.#ended({ reason: finishReason(finish, this.#calls), usage, ...this.#rest(), ...(end && { end }) })
  }

  #cut(pieces: readonly ReplyPiece[]): readonly ReplyPiece[] {
    const kept = this.#source.stops.length === 0 ? pieces : pieces.flatMap((piece) => this.#cutter.push(piece))
    for (const { type } of kept) if (type === 'tool_call') this.#calls++
    return this.#noted(kept)
  }

  #noted(pieces: readonly ReplyPiece[]): readonly ReplyPiece[] {
    if (this.#source.completion.rate) this.#tokens.push(...pieces.flatMap(({ logProbs }) => logProbs ?? []))
    return pieces
  }

  #stopped(stoppedBy: string): ReplyFinish {
    this.settle()
    const reason = this.#calls > 0 ? 'tool_calls' : 'stop'
    return this.#ended({ reason, usage: this.#usage(this.tokens), stoppedBy })
  }

  #ended(finish: Omit<ReplyFinish, 'type'>): ReplyFinish {
    this.hasEnded = true
    const isCut = finish.reason === 'length'
    const places = this.#source.completion.rate?.([...this.#tokens, ...(finish.logProbs ?? [])], isCut)
    return { type: 'finish', ...finish, ...(places && { places }) }
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

/** @param calls number of tool calls in the completion. */
export function finishReason({ reason, thoughtInterrupted }: CompletionFinish, calls: number): FinishReason {
  if (reason === 'length') return 'length'
  if (calls > 0) return 'tool_calls'
  return thoughtInterrupted ? 'interrupted' : 'stop'
}
