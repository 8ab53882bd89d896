import type { FinishEvent, TextEvent, TokenLogProb } from '../../inference/contract/generation.ts'
import { tokenTexts } from '../../inference/contract/join-texts.ts'
import { sumOf } from '../../lib/sum.ts'
import type { RatePlaces } from './grounding.ts'
import { LogProbReader } from './log-prob-reader.ts'
import type { ReplyPiece } from './reply-piece.ts'
import type { ReplyReader } from './reply-reader.ts'
import { TextJoiner } from './text-joiner.ts'

/** How a completion is read. It may consist of one branch per picture. */
export interface CompletionParts {
  /** One per branch, in the order of their texts. */
  readonly readers: readonly ReplyReader[]
  /** Maximum tokens of all branches together. */
  readonly maxTokens: number
  /** The model's reply for a picture in which it finds nothing. */
  readonly nothing: string
  /** Rates the places in the reply; absent if that is not wanted. */
  readonly rate?: RatePlaces | undefined
}

/** The addition of one engine event to a completion. */
interface ReadStep {
  readonly pieces: readonly ReplyPiece[]
  /** Present at the end of the completion. */
  readonly finish?: CompletionFinish
}

export type CompletionFinish = Pick<FinishEvent, 'reason' | 'completionTokens' | 'thoughtInterrupted' | 'end'>

interface BranchReading {
  readonly reader: ReplyReader
  readonly events: LogProbReader
  /** Events that arrived before the branch's turn. */
  readonly waiting: (TextEvent | FinishEvent)[]
}

/** Reads the branches of one completion in sequence; the engine may compute them in any order. */
export class CompletionReader {
  readonly #branches: readonly BranchReading[]
  readonly #joiner: TextJoiner | null
  readonly #maxTokens: number
  readonly #byToken: boolean
  readonly #counts: number[]
  /** Tokens of the thought of each branch. */
  readonly #thoughts: number[]
  #at = 0
  #isCut = false
  #isInterrupted = false
  #hasFinished = false

  /** @param mayStop whether the text may end the completion, so that each token is read separately. */
  constructor({ readers, maxTokens, nothing }: CompletionParts, mayStop = false) {
    this.#branches = readers.map((reader) => ({ reader, events: new LogProbReader(reader), waiting: [] }))
    this.#joiner = readers.length === 1 ? null : new TextJoiner(nothing)
    // The engine itself enforces the limit for a single branch.
    this.#maxTokens = readers.length === 1 ? Number.POSITIVE_INFINITY : maxTokens
    this.#byToken = mayStop || readers.length > 1
    this.#counts = readers.map(() => 0)
    this.#thoughts = readers.map(() => 0)
  }

  get isSingle(): boolean {
    return this.#joiner === null
  }

  /** Tokens read so far in each branch. */
  get counts(): readonly number[] {
    return this.#counts
  }

  get tokens(): number {
    return sumOf(this.#counts, (count) => count)
  }

  get reasoningTokens(): number {
    return sumOf(this.#thoughts, (count) => count)
  }

  /** Log-probabilities that no piece carries; call at the end. */
  get rest(): readonly TokenLogProb[] {
    return this.#branches.flatMap(({ events }) => events.rest)
  }

  /** @param branch of this completion, counted from 0. */
  *take(branch: number, event: TextEvent | FinishEvent): Generator<ReadStep, void, void> {
    this.#branches[branch]!.waiting.push(event)
    while (!this.#hasFinished) {
      const { reader, waiting } = this.#branches[this.#at]!
      const next = waiting.shift()
      if (next === undefined) return
      if (next.type === 'finish') yield this.#end(next)
      else {
        for (const part of this.#byToken || reader.mayThink ? tokenTexts(next) : [next]) {
          yield this.#read(part)
          if (this.#hasFinished) return
        }
      }
    }
  }

  /** Ends the completion with the text so far. */
  cutOff(): readonly ReplyPiece[] {
    this.#hasFinished = true
    const pieces = this.#joined(this.#branches[this.#at]!.events.end(true))
    return [...pieces, ...(this.#joiner?.end(true) ?? [])]
  }

  #read(event: TextEvent): ReadStep {
    if (this.tokens + event.tokens > this.#maxTokens) return this.#exhausted()
    this.#counts[this.#at]! += event.tokens
    const { reader, events } = this.#branches[this.#at]!
    const pieces = this.#joined(events.push(event))
    if (reader.section === 'thought') this.#thoughts[this.#at]! += event.tokens
    return { pieces }
  }

  #end({ reason, completionTokens, reasoningTokens, thoughtInterrupted = false, end }: FinishEvent): ReadStep {
    const isCut = reason === 'length'
    this.#isCut ||= isCut
    this.#isInterrupted ||= thoughtInterrupted
    // Tokens that print nothing have no events; only a limited number of them count.
    this.#counts[this.#at]! += Math.min(completionTokens - this.#counts[this.#at]!, this.#maxTokens - this.tokens)
    this.#thoughts[this.#at] = Math.min(reasoningTokens ?? this.#thoughts[this.#at]!, this.#counts[this.#at]!)
    const pieces = this.#joined(this.#branches[this.#at]!.events.end(isCut))
    if (this.#at === this.#branches.length - 1) {
      const finish = { ...this.#finish(), ...(end && { end }) }
      return { pieces: [...pieces, ...(this.#joiner?.end(this.#isCut) ?? [])], finish }
    }
    this.#at++
    if (this.tokens < this.#maxTokens) return { pieces: [...pieces, ...(this.#joiner?.next() ?? [])] }
    this.#isCut = true
    return { pieces: [...pieces, ...(this.#joiner?.end(true) ?? [])], finish: this.#finish() }
  }

  #exhausted(): ReadStep {
    this.#isCut = true
    return { pieces: this.cutOff(), finish: this.#finish() }
  }

  #finish(): CompletionFinish {
    this.#hasFinished = true
    return {
      reason: this.#isCut ? 'length' : 'stop',
      completionTokens: this.tokens,
      ...(this.#isInterrupted ? { thoughtInterrupted: true } : {}),
    }
  }

  #joined(pieces: readonly ReplyPiece[]): readonly ReplyPiece[] {
    return this.#joiner === null ? pieces : pieces.flatMap((piece) => this.#joiner!.push(piece))
  }
}
