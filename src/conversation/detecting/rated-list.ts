import type { Leaf } from '../../grounding/annotation.ts'
import type { AnswerForm } from '../../grounding/answer-form.ts'
import type { OnePlaceEvidence } from '../../grounding/evidence.ts'
import { GRID } from '../../media/coordinates.ts'
import type { DetectionFit } from '../../models/detection-schema.ts'
import { type BoxEvidence, boxConfidence, listComplete } from './confidence.ts'
import { type DetectionSearch, type FurtherObject, overlap } from './search.ts'

/** The objects that one search found, with confidence. */
export interface RatedList {
  /** The labels that were searched for; null for every object. */
  readonly labels: readonly string[] | null
  readonly objects: readonly RatedObject[]
  /** The probability that no object is missing; null if the engine gives no probability of the end. */
  readonly complete: number | null
  /** The probability of continuing at the end of the list. */
  readonly more: number | null
}

interface RatedObject extends Sureness {
  readonly leaf: Leaf
}

/** The confidence of an object, and the evidence for it. */
export interface Sureness {
  /** 0..1 */
  readonly confidence: number
  readonly evidence: BoxEvidence
}

interface FurtherEvidence {
  /** The object that the model found when it had to continue; null if it had not to. */
  readonly further: FurtherObject | null
  /** The probability that an object is at its place, for objects that were asked about. */
  readonly reads: ReadonlyMap<Leaf, number>
}

/** @param form of the answer that the search has read. */
export function rateList(
  search: DetectionSearch,
  form: AnswerForm,
  { further, reads }: FurtherEvidence,
  fit: DetectionFit | null,
): RatedList {
  const { labels, leaves: listed } = search
  const { places, more } = search.evidence(form)
  const listLength = listed.length
  const found = listed.map((leaf, index) => ({ leaf, place: places[index]! }))
  // It begins where the list ended.
  if (further !== null) found.push({ leaf: further.leaf, place: { ...further.place, begin: more ?? 0 } })
  const objects = found.map(({ leaf, place }, index): RatedObject => {
    const evidence = { ...place, ...extentOf(leaf, listed), rank: index + 1, listLength, read: reads.get(leaf) ?? null }
    return { leaf, confidence: boxConfidence(evidence, fit), evidence }
  })
  const complete = more === null ? null : listComplete({ more, listLength }, fit)
  return { labels, objects, complete, more }
}

/**
 * @param leaf the one object that was found; null for the answer that there is none.
 * @returns null if evidence is missing.
 */
export function ratePlace(leaf: Leaf | null, { place, more }: OnePlaceEvidence, fit: DetectionFit): number | null {
  if (leaf === null) return more === null ? null : listComplete({ more, listLength: 0 }, fit)
  if (place === null) return null
  return boxConfidence({ ...place, ...extentOf(leaf, []), rank: 1, listLength: 1, read: null }, fit)
}

/** Points overlap nothing and have no size. @param listed the boxes and points that the model wrote. */
function extentOf(leaf: Leaf, listed: readonly Leaf[]): Pick<BoxEvidence, 'overlap' | 'size'> {
  return leaf.kind === 'point_box'
    ? { overlap: overlapAmong(leaf, listed), size: sizeOf(leaf) }
    : { overlap: 0, size: 0 }
}

function overlapAmong(leaf: Leaf, leaves: readonly Leaf[]): number {
  const others = leaves.filter((other) => other !== leaf && other.kind === 'point_box')
  return Math.max(0, ...others.map(({ points }) => overlap(leaf.points, points)))
}

function sizeOf({ points: [from, to] }: Leaf): number {
  return Math.sqrt((to!.x - from!.x) * (to!.y - from!.y)) / GRID
}
