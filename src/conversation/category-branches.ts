import type { Annotation, Leaf, Prose } from '../grounding/annotation.ts'
import type { AnnotationReader, Scene } from '../grounding/dialect.ts'
import type { ServedModel } from '../inference/catalog/registry.ts'
import type { Generation, TextEvent } from '../inference/contract/generation.ts'
import { tokenTexts } from '../inference/contract/join-texts.ts'
import type { Branch } from '../inference/contract/work.ts'
import { internalError } from '../lib/errors.ts'
import { Detections } from './reply/detections.ts'
import { dialectOf } from './reply/grounding.ts'
import type { ReplyPiece, TextStage } from './reply/reply-piece.ts'
import type { ReplySpec } from './reply/reply-spec.ts'
import type { Deadline } from './request/deadline.ts'

export interface SearchParts {
  readonly branch: Branch
  readonly spec: ReplySpec
  /** The labels that objects may have; null for any. */
  readonly labels: readonly string[] | null
  readonly model: ServedModel
  readonly scene: Scene
}

/** Collects the model's answer to one detection question. */
export class CategoryBranches {
  readonly branch: Branch
  /** Labels, by the names that the model writes for them; null for any name. */
  readonly #labels: ReadonlyMap<string, string> | null
  readonly #reply: TextStage
  readonly #reader: AnnotationReader
  readonly #found = new Detections()
  #state: 'waiting' | 'reading' | 'complete' | 'cut' = 'waiting'
  /** Of the texts that it has read. */
  tokens = 0

  constructor({ branch, spec, labels, model, scene }: SearchParts) {
    this.branch = branch
    const { reader, detection } = dialectOf(model.card)
    this.#labels = labels && new Map(labels.map((label) => [detection.written?.(label) ?? label, label]))
    this.#reply = spec.createReader()
    this.#reader = reader(scene)
  }

  get leaves(): readonly Leaf[] {
    return this.#found.leaves
  }

  get hasText(): boolean {
    return this.#state !== 'waiting'
  }

  /** Whether the model finished its answer. */
  get isComplete(): boolean {
    return this.#state === 'complete'
  }

  /** Whether no further objects are expected. */
  get isOver(): boolean {
    return this.#state === 'complete' || this.#state === 'cut' || this.#found.isRepeating
  }

  /** Reads no further than it needs to. */
  push(event: TextEvent): void {
    this.#state = 'reading'
    for (const { text, tokens } of tokenTexts(event)) {
      this.tokens += tokens
      this.#take(this.#reply.push(text))
      if (this.isOver) return
    }
  }

  /** @param cut whether the answer was truncated. */
  end(cut: boolean): void {
    this.#take(this.#reply.end(cut))
    this.#keep(this.#reader.end(cut))
    this.#state = cut ? 'cut' : 'complete'
  }

  #take(pieces: readonly ReplyPiece[]): void {
    // Reasoning is not part of the answer.
    for (const piece of pieces) if (piece.type === 'text') this.#keep(this.#reader.push(piece.text))
  }

  #keep(pieces: readonly (Prose | Annotation)[]): void {
    for (const piece of pieces) {
      if (piece.kind !== 'point' && piece.kind !== 'point_box') continue
      if (this.#labels === null) {
        this.#found.add(piece)
        continue
      }
      // An engine that enforces the constraint produces no other labels.
      const mention = this.#labels.get(piece.mention ?? '')
      if (mention !== undefined) this.#found.add({ ...piece, mention })
    }
  }
}

/**
 * Feeds the engine's events to the searches until all are over. At the deadline, the objects found so far count.
 * @throws ApiError when the engine fails, and 504 when the deadline passes before the first text.
 */
export async function follow(
  searches: readonly CategoryBranches[],
  generation: Generation,
  deadline: Deadline,
): Promise<void> {
  try {
    for await (const event of generation.events) {
      if (event.type === 'error') throw event.error
      const search = searches[event.branch]!
      if (search.isOver) continue
      if (event.type === 'text') search.push(event)
      else search.end(event.reason === 'length')
      if (event.type === 'text' && search.isOver) generation.settle(event, search.tokens)
      if (searches.every(({ isOver }) => isOver)) return
    }
  } catch (error) {
    if (!deadline.caused(error) || !searches.some(({ hasText }) => hasText)) throw error
    for (const search of searches) if (!search.isOver) search.end(true)
    return
  }
  throw internalError(new Error('The engine ended a completion without a finish event'))
}
