import type { Annotation, Prose } from '../../grounding/annotation.ts'
import type { AnswerForm } from '../../grounding/answer-form.ts'
import type { AnnotationReader } from '../../grounding/dialect.ts'
import { type AnswerEvidence, evidenceIn } from '../../grounding/evidence.ts'
import type { FinishEvent, Generation, TextEvent, TokenLogProb } from '../../inference/contract/generation.ts'
import { tokenTexts } from '../../inference/contract/join-texts.ts'
import type { Branch } from '../../inference/contract/work.ts'
import { internalError } from '../../lib/errors/errors.ts'
import { LogProbReader } from './log-prob-reader.ts'
import type { ReplyPiece } from './reply-piece.ts'
import type { ReplyReader } from './reply-reader.ts'

export interface SearchParts {
  readonly branch: Branch
  /** Removes thoughts from the model's text. */
  readonly reply: ReplyReader
  /** Creates a reader of annotations in the remaining text. */
  readonly createReader: () => AnnotationReader
}

/** Searches one completion for annotations, and stops when it needs no more text. */
export abstract class AnnotationSearch {
  readonly branch: Branch
  readonly #reply: LogProbReader
  readonly #createReader: SearchParts['createReader']
  readonly #reader: AnnotationReader
  #end: TokenLogProb | null = null
  #state: 'waiting' | 'reading' | 'complete' | 'cut' = 'waiting'
  /** Tokens of the texts read so far. */
  tokens = 0
  /** Tokens of the reply without thoughts, if the branch asks for log-probabilities. */
  protected readonly rated: TokenLogProb[] = []

  constructor({ branch, reply, createReader }: SearchParts) {
    this.branch = branch
    this.#reply = new LogProbReader(reply)
    this.#createReader = createReader
    this.#reader = createReader()
  }

  get hasText(): boolean {
    return this.#state !== 'waiting'
  }

  /** Whether the model finished its answer. */
  get isComplete(): boolean {
    return this.#state === 'complete'
  }

  /** Whether no further annotations are expected. */
  get isOver(): boolean {
    return this.#state === 'complete' || this.#state === 'cut' || this.isSatisfied
  }

  /** Whether it needs no more text. */
  protected abstract get isSatisfied(): boolean

  protected abstract keep(annotation: Annotation): void

  /** The engine failed at this completion, which may be over. */
  abstract fail(error: unknown): void

  /** Reads the beginning of the answer, if it is part of the prompt. @returns the number of its annotations. */
  protected skip(begun: string): number {
    return this.#reader.push(begun).filter(({ kind }) => kind !== 'prose').length
  }

  /** The evidence for each annotation so far. @param form of the answer. */
  protected evidenceOf(form: AnswerForm): AnswerEvidence {
    return evidenceIn({ tokens: this.rated, end: this.#end, isCut: !this.isComplete }, form, this.#createReader())
  }

  protected note(_token: TextEvent): void {}

  take(event: TextEvent | FinishEvent): void {
    if (event.type === 'finish') {
      this.#end = event.end ?? null
      this.end(event.reason === 'length')
      return
    }
    this.#state = 'reading'
    for (const token of tokenTexts(event)) {
      this.tokens += token.tokens
      this.note(token)
      this.#read(this.#reply.push(token))
      if (this.isOver) return
    }
  }

  /** @param cut whether the answer was truncated. */
  end(cut: boolean): void {
    this.#read(this.#reply.end(cut))
    this.rated.push(...this.#reply.rest)
    this.#keepAll(this.#reader.end(cut))
    this.#state = cut ? 'cut' : 'complete'
  }

  #read(pieces: readonly ReplyPiece[]): void {
    // Reasoning is not part of the answer.
    for (const piece of pieces) {
      if (piece.logProbs !== undefined) this.rated.push(...piece.logProbs)
      if (piece.type === 'text') this.#keepAll(this.#reader.push(piece.text))
    }
  }

  #keepAll(found: readonly (Prose | Annotation)[]): void {
    for (const one of found) if (one.kind !== 'prose') this.keep(one)
  }
}

/** Feeds the engine's events to the searches until all are over. @throws what the engine throws. */
export async function followSearches(searches: readonly AnnotationSearch[], generation: Generation): Promise<void> {
  for await (const event of generation.events) {
    const search = searches[event.branch]!
    if (event.type === 'error') search.fail(event.error)
    else if (search.isOver) continue
    else search.take(event)
    if (event.type === 'text' && search.isOver) generation.settle(event, search.tokens)
    if (searches.every(({ isOver }) => isOver)) return
  }
  throw internalError(new Error('The engine ended a completion without a finish event'))
}
