import type { EngineEvent, FinishEvent, TextEvent } from '../inference/contract/generation.ts'
import type { Branch } from '../inference/contract/work.ts'
import { sumOf } from '../lib/sum.ts'
import { finishReason } from './reply/assembler.ts'
import { type CompletionFinish, type CompletionParts, CompletionReader } from './reply/completion-reader.ts'
import type { Completion, MultilookPiece, PromptFailure, PromptResult } from './reply/multilook-reply.ts'
import { ReplyCollector } from './reply/reply.ts'
import { joinPieces, type ReplyPiece } from './reply/reply-piece.ts'
import type { PlacedMessage } from './request/message.ts'
import type { MultilookRequest } from './request/multilook-request.ts'

/** A prompt of a multilook, which collects its completions or its error. */
export class PromptRun {
  /** Its documents are replaced by their pages before anything else is done with it. */
  placed: PlacedMessage
  /** Its index among the prompts of the request. */
  readonly index: number
  /** More than one if the model is asked about one picture at a time. */
  branches: readonly Branch[] = []
  #completions: CompletionRun[] = []
  #failure: PromptFailure | null = null

  constructor(content: MultilookRequest['prompts'][number], index: number) {
    this.placed = { message: { role: 'user', content }, param: ['prompts', index] }
    this.index = index
  }

  /** Sets the engine's work for this prompt. Called once, unless the prompt fails first. */
  begin(branches: readonly Branch[], completion: () => CompletionParts): void {
    this.branches = branches
    this.#completions = Array.from({ length: branches[0]!.n }, () => new CompletionRun(completion()))
  }

  get failed(): boolean {
    return this.#failure !== null
  }

  get error(): unknown {
    return this.#failure?.error
  }

  /** Whether the prompt has a result: all its completions, or an error. */
  get ended(): boolean {
    return this.failed || this.#completions.every(({ finish }) => finish !== null)
  }

  fail(error: unknown): void {
    this.#failure ??= { type: 'failure', error }
  }

  /** Runs a step; if it throws, the prompt fails. */
  async attempt(step: () => void | Promise<void>): Promise<void> {
    try {
      await step()
    } catch (error) {
      this.fail(error)
    }
  }

  /** @param branch of this prompt, counted from 0. */
  take(branch: number, event: EngineEvent): readonly MultilookPiece[] {
    if (event.type === 'error') {
      this.fail(event.error)
      return []
    }
    const { completion } = event
    const pieces = this.#completions[completion]!.take(branch, event)
    return pieces.map((piece) => ({ type: 'piece', prompt: this.index, completion, piece }))
  }

  /** The number of tokens read so far in each completion of a branch. */
  tokensOf(branch: number): readonly number[] {
    return this.#completions.map(({ counts }) => counts[branch]!)
  }

  /** Call when it has ended. */
  result(): PromptResult {
    if (this.#failure) return this.#failure
    return {
      type: 'answer',
      completions: this.#completions.map(({ completion }) => completion),
      completionTokens: sumOf(this.#completions, ({ finish }) => finish!.completionTokens),
    }
  }
}

class CompletionRun {
  finish: CompletionFinish | null = null
  readonly #reader: CompletionReader
  readonly #collector = new ReplyCollector()

  constructor(parts: CompletionParts) {
    this.#reader = new CompletionReader(parts)
  }

  get counts(): readonly number[] {
    return this.#reader.counts
  }

  /** Call when it has ended. */
  get completion(): Completion {
    const { message, logProbs } = this.#collector
    return { message, logProbs: [...logProbs, ...this.#reader.rest], reason: finishReason(this.finish!, 0) }
  }

  take(branch: number, event: TextEvent | FinishEvent): readonly ReplyPiece[] {
    const steps = [...this.#reader.take(branch, event)]
    const pieces = joinPieces(steps.flatMap((step) => step.pieces))
    for (const piece of pieces) this.#collector.add(piece)
    this.finish ??= steps.at(-1)?.finish ?? null
    return pieces
  }
}
