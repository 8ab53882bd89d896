import type { Branch, EngineEvent, FinishEvent, TextEvent, TokenLogProb } from '../inference/engine.ts'
import { LogProbReader } from './reply/log-prob-reader.ts'
import type { MultilookPiece, PromptFailure, PromptResult } from './reply/multilook-reply.ts'
import { finishReason, MessageCollector, type ReplyMessage } from './reply/reply.ts'
import type { ReplyPiece } from './reply/reply-piece.ts'
import type { ReplyReader } from './reply/reply-reader.ts'
import type { ReplySpec } from './reply/reply-spec.ts'
import type { PlacedMessage } from './request/message.ts'
import type { MultilookRequest } from './request/multilook-request.ts'

/** A prompt of a multilook, which collects its completions or its error. */
export class PromptRun {
  readonly placed: PlacedMessage
  /** Its place among the prompts of the request. */
  readonly index: number
  #branch: Branch | null = null
  #completions: CompletionRun[] = []
  #failure: PromptFailure | null = null

  constructor(content: MultilookRequest['prompts'][number], index: number) {
    this.placed = { message: { role: 'user', content }, param: ['prompts', index] }
    this.index = index
  }

  /** Sets the engine's work for this prompt. Called once, unless the prompt fails first. */
  begin(branch: Branch, spec: ReplySpec): void {
    this.#branch = branch
    this.#completions = Array.from({ length: branch.n }, () => new CompletionRun(spec.createReader()))
  }

  get branch(): Branch {
    return this.#branch!
  }

  get failed(): boolean {
    return this.#failure !== null
  }

  get error(): unknown {
    return this.#failure?.error
  }

  /** Whether it has a result: all its completions, or an error. */
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

  take(event: EngineEvent): readonly MultilookPiece[] {
    if (event.type === 'error') {
      this.fail(event.error)
      return []
    }
    const { completion } = event
    const pieces = this.#completions[completion]!.take(event)
    return pieces.map((piece) => ({ type: 'piece', prompt: this.index, completion, piece }))
  }

  /** Call when it has ended. */
  result(): PromptResult {
    if (this.#failure) return this.#failure
    return {
      type: 'answer',
      completions: this.#completions.map(({ message, logProbs, finish }) => ({
        message,
        logProbs,
        reason: finishReason(finish!, 0),
      })),
      completionTokens: this.#completions.reduce((total, { finish }) => total + finish!.completionTokens, 0),
    }
  }
}

class CompletionRun {
  finish: FinishEvent | null = null
  readonly logProbs: TokenLogProb[] = []
  readonly #reader: LogProbReader
  readonly #collector = new MessageCollector()

  constructor(reader: ReplyReader) {
    this.#reader = new LogProbReader(reader)
  }

  get message(): ReplyMessage {
    return this.#collector.message
  }

  take(event: TextEvent | FinishEvent): readonly ReplyPiece[] {
    if (event.type === 'finish') this.finish = event
    const pieces = event.type === 'text' ? this.#reader.push(event) : this.#reader.end(event.reason === 'length')
    for (const piece of pieces) {
      this.#collector.add(piece)
      this.logProbs.push(...(piece.logProbs ?? []))
    }
    if (event.type === 'finish') this.logProbs.push(...this.#reader.rest)
    return pieces
  }
}
