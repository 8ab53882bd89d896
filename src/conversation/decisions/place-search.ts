import type { Annotation, Clip, Leaf } from '../../grounding/annotation.ts'
import { type Assets, withAsset } from '../../grounding/assets.ts'
import type { TextEvent } from '../../inference/contract/generation.ts'
import { sumOf } from '../../lib/sum.ts'
import { AnnotationSearch, type SearchParts } from '../reply/annotation-search.ts'
import type { FindKind } from '../request/decision-request.ts'
import type { Answer } from './decision-reply.ts'

interface PlaceSearchParts extends SearchParts {
  readonly kind: FindKind
  /** The media that the place may be in. */
  readonly assets: Assets
}

/** Reads one completion until its first place. */
export class PlaceSearch extends AnnotationSearch {
  readonly #kind: Leaf['kind'] | Clip['kind']
  readonly #assets: Assets
  /** Log-probabilities of the tokens at which the model had a choice; null where they are unknown. */
  #logProbs: number[] | null = []
  #place: Leaf | Clip | null = null
  #failure: { readonly error: unknown } | null = null

  constructor({ kind, assets, ...parts }: PlaceSearchParts) {
    super(parts)
    this.#kind = KINDS[kind]
    this.#assets = assets
  }

  get answer(): Answer {
    if (this.#failure !== null) return { type: 'none', error: this.#failure.error }
    return { type: 'found', place: this.#place, confidence: meanProbability(this.#logProbs) }
  }

  protected get isSatisfied(): boolean {
    return this.#place !== null || this.#failure !== null
  }

  fail(error: unknown): void {
    if (!this.isOver) this.#failure = { error }
  }

  protected override note({ logProbs }: TextEvent): void {
    if (logProbs === undefined) this.#logProbs = null
    else this.#logProbs?.push(...logProbs.map(({ logProb }) => logProb).filter((logProb) => logProb < 0))
  }

  protected keep(annotation: Annotation): void {
    const named = withAsset(annotation, this.#assets)
    this.#place ??= (named && leavesOf(named).find(({ kind }) => kind === this.#kind)) ?? null
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
  return logProbs.length === 0 ? 1 : Math.exp(sumOf(logProbs, (logProb) => logProb) / logProbs.length)
}
