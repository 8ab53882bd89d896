import type { Annotation, Clip, Leaf } from '../../grounding/annotation.ts'
import type { AnswerForm } from '../../grounding/answer-form.ts'
import { type Assets, withAsset } from '../../grounding/assets.ts'
import type { OnePlaceEvidence } from '../../grounding/evidence.ts'
import type { TextEvent } from '../../inference/contract/generation.ts'
import { sumOf } from '../../lib/sum.ts'
import { AnnotationSearch, type SearchParts } from '../reply/annotation-search.ts'
import type { FindKind } from '../request/decision-request.ts'
import type { Answer } from './decision-reply.ts'

interface PlaceSearchParts extends SearchParts {
  readonly kind: FindKind
  /** The media that the place may be in. */
  readonly assets: Assets
  /** How the place is rated; null for the mean of its tokens. */
  readonly rating: PlaceRating | null
}

export interface PlaceRating {
  /** Form of the answer. */
  readonly form: AnswerForm
  /** @returns the probability that the place, or null for none, is right; null if the evidence is missing. */
  confidence(place: Leaf | null, evidence: OnePlaceEvidence): number | null
}

/** Reads one completion until its first place. */
export class PlaceSearch extends AnnotationSearch {
  readonly #kind: Leaf['kind'] | Clip['kind']
  readonly #assets: Assets
  /** Log-probabilities of the tokens at which the model had a choice; null if they are unknown. */
  #logProbs: number[] | null = []
  readonly #rating: PlaceRating | null
  /** Number of annotations that were read so far: the place is the last. */
  #read = 0
  #place: Leaf | Clip | null = null
  #failure: { readonly error: unknown } | null = null

  constructor({ kind, assets, rating, ...parts }: PlaceSearchParts) {
    super(parts)
    this.#kind = KINDS[kind]
    this.#assets = assets
    this.#rating = rating
  }

  get answer(): Answer {
    if (this.#failure !== null) return { type: 'none', error: this.#failure.error }
    return { type: 'found', place: this.#place, confidence: this.#rated() ?? meanProbability(this.#logProbs) }
  }

  /** The confidence by the card's fit; null if there is none, or the evidence is missing. */
  #rated(): number | null {
    if (this.#rating === null || this.#place?.kind === 'clip') return null
    const { places, more } = this.evidenceOf(this.#rating.form)
    return this.#rating.confidence(this.#place, { place: places[this.#read - 1]?.evidence ?? null, more })
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
    if (this.#place !== null) return
    this.#read++
    const named = withAsset(annotation, this.#assets)
    this.#place = (named && leavesOf(named).find(({ kind }) => kind === this.#kind)) ?? null
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
