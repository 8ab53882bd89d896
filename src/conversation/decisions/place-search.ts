import type { Annotation, Clip, Leaf, Prose } from '../../grounding/annotation.ts'
import { type Assets, withAsset } from '../../grounding/assets.ts'
import type { AnnotationReader } from '../../grounding/dialect.ts'
import type { FinishEvent, Generation, TextEvent } from '../../inference/contract/generation.ts'
import { tokenTexts } from '../../inference/contract/join-texts.ts'
import type { Branch } from '../../inference/contract/work.ts'
import { internalError } from '../../lib/errors.ts'
import type { TextStage } from '../reply/reply-piece.ts'
import type { FindQuestion } from '../request/decision-request.ts'
import type { Answer } from './decision-reply.ts'

export interface PlaceSearchParts {
  readonly question: FindQuestion
  readonly branch: Branch
  /** Takes thoughts out of the model's text. */
  readonly reply: TextStage
  /** Reads places from what is left. */
  readonly reader: AnnotationReader
  /** What the place may be in. */
  readonly assets: Assets
}

/** Follows one completion to the first place in it. */
export class PlaceSearch {
  readonly branch: Branch
  readonly #kind: Leaf['kind'] | Clip['kind']
  readonly #reply: TextStage
  readonly #reader: AnnotationReader
  readonly #assets: Assets
  /** Log-probabilities of the tokens that the model could have chosen otherwise; null where they are unknown. */
  #logProbs: number[] | null = []
  #place: Leaf | Clip | null = null
  #error: unknown = null
  isOver = false
  /** Of the texts that it has read. */
  tokens = 0

  constructor({ question, branch, reply, reader, assets }: PlaceSearchParts) {
    this.branch = branch
    this.#kind = KINDS[question.type]
    this.#reply = reply
    this.#reader = reader
    this.#assets = assets
  }

  get answer(): Answer {
    if (this.#error !== null) return { type: 'none', error: this.#error }
    return { type: 'found', place: this.#place, confidence: meanProbability(this.#logProbs) }
  }

  take(event: TextEvent | FinishEvent): void {
    if (event.type === 'text') {
      for (const part of tokenTexts(event)) {
        this.#read(part)
        if (this.isOver) return
      }
      return
    }
    const cut = event.reason === 'length'
    for (const piece of this.#reply.end(cut)) if (piece.type === 'text') this.#keep(this.#reader.push(piece.text))
    this.#keep(this.#reader.end(cut))
    this.isOver = true
  }

  fail(error: unknown): void {
    this.#error = error
    this.isOver = true
  }

  #read(part: TextEvent): void {
    this.tokens += part.tokens
    this.#note(part)
    for (const piece of this.#reply.push(part.text))
      if (piece.type === 'text') this.#keep(this.#reader.push(piece.text))
  }

  #note({ logProbs }: TextEvent): void {
    if (logProbs === undefined) this.#logProbs = null
    else this.#logProbs?.push(...logProbs.map(({ logProb }) => logProb).filter((logProb) => logProb < 0))
  }

  #keep(pieces: readonly (Prose | Annotation)[]): void {
    for (const piece of pieces) {
      if (this.isOver || piece.kind === 'prose') continue
      const named = withAsset(piece, this.#assets)
      const [found] = named === null ? [] : leavesOf(named).filter(({ kind }) => kind === this.#kind)
      if (found === undefined) continue
      this.#place = found
      this.isOver = true
    }
  }
}

const KINDS = { box: 'point_box', point: 'point', clip: 'clip' } as const

function leavesOf(annotation: Annotation): readonly (Leaf | Clip)[] {
  if (annotation.kind === 'collection') return annotation.members.flatMap(leavesOf)
  return annotation.kind === 'track' ? annotation.waypoints : [annotation]
}

/** The geometric mean of the tokens' probabilities. */
function meanProbability(logProbs: readonly number[] | null): number | null {
  if (logProbs === null) return null
  return logProbs.length === 0 ? 1 : Math.exp(logProbs.reduce((sum, value) => sum + value, 0) / logProbs.length)
}

/** Feeds the engine's events to the searches until all are over. @throws what the engine throws. */
export async function followSearches(searches: readonly PlaceSearch[], generation: Generation): Promise<void> {
  for await (const event of generation.events) {
    const search = searches[event.branch]!
    if (search.isOver) continue
    if (event.type === 'error') search.fail(event.error)
    else search.take(event)
    if (event.type === 'text' && search.isOver) generation.settle(event, search.tokens)
    if (searches.every(({ isOver }) => isOver)) return
  }
  throw internalError(new Error('The engine ended a completion without a finish event'))
}
