import type { PlaceEvidence } from '../../grounding/evidence.ts'
import type { BoxFeature, Curve, DetectionFit, ListFeature } from '../../models/detection-schema.ts'

/** The evidence for a box, before it is weighted. */
export interface BoxEvidence extends PlaceEvidence {
  /** Greatest IoU with another box of the list, 0..1. */
  readonly overlap: number
  /** The square root of the area, as a share of the image's, 0..1. */
  readonly size: number
  /** Place in the list, from 1. Beyond `listLength`, the model would not have written the box. */
  readonly rank: number
  readonly listLength: number
  /** The probability that the model reads the label in the box; null if it was not asked. */
  readonly read: number | null
}

export interface ListEvidence {
  /** The probability of continuing at the end, 0..1. */
  readonly more: number
  readonly listLength: number
}

/** A model's probabilities are clamped to this distance from 0 and 1: beyond it, they mean nothing more. */
const LEAST = 1e-4

/** The weight of the curve beside its steps, so that boxes on one step keep their order. */
const KEPT = 0.05

/** The probability that a box is right. Without a fit: that it begins here and lies near. */
export function boxConfidence(evidence: BoxEvidence, fit: DetectionFit | null): number {
  if (fit === null) return evidence.begin * evidence.near
  const curve = evidence.read === null ? fit.confidence : (fit.thorough ?? fit.confidence)
  return chanceOf(boxFeatures(evidence), curve)
}

/** The probability that a list is complete. Without a fit: that it ends here. */
export function listComplete(evidence: ListEvidence, fit: DetectionFit | null): number {
  return fit === null ? 1 - evidence.more : chanceOf(listFeatures(evidence), fit.complete)
}

export function boxFeatures({ listLength, ...box }: BoxEvidence): Readonly<Record<BoxFeature, number>> {
  const [begin, near, mean] = [logit(box.begin), logit(box.near), logit(box.mean)]
  const read = box.read === null ? 0 : logit(box.read)
  const further = Number(box.rank > listLength)
  return {
    begin,
    near,
    mean,
    overlap: box.overlap,
    overlap30: Number(box.overlap > 0.3),
    overlap60: Number(box.overlap > 0.6),
    size: Math.log(Math.max(0.01, box.size)),
    rank: Math.log(box.rank),
    length: Math.log(Math.max(1, listLength)),
    read,
    further,
    furtherBegin: further * begin,
    furtherNear: further * near,
    furtherRead: further * read,
  }
}

export function listFeatures({ more: share, listLength }: ListEvidence): Readonly<Record<ListFeature, number>> {
  const more = logit(share)
  const empty = Number(listLength === 0)
  return { more, length: Math.log(listLength + 1), empty, emptyMore: empty * more }
}

/** The probability of a logistic curve over features, corrected by its steps. */
export function chanceOf<Feature extends string>(
  features: Readonly<Record<Feature, number>>,
  { bias, weights, steps }: Curve<Feature>,
): number {
  const score = Object.entries<number>(features).reduce(
    (sum, [name, value]) => sum + (weights[name as Feature] ?? 0) * value,
    bias,
  )
  return corrected(1 / (1 + Math.exp(-score)), steps)
}

/** Linear interpolation from (0, 0) over the steps to (1, 1). */
function corrected(chance: number, steps: Curve<string>['steps']): number {
  if (steps.length === 0) return chance
  const next = steps.findIndex(([at]) => at >= chance)
  const [toAt, toValue] = steps[next] ?? [1, 1]
  const [fromAt, fromValue] = steps[next === -1 ? steps.length - 1 : next - 1] ?? [0, 0]
  const step = toAt === fromAt ? toValue : fromValue + ((chance - fromAt) / (toAt - fromAt)) * (toValue - fromValue)
  return (1 - KEPT) * step + KEPT * chance
}

function logit(share: number): number {
  const kept = Math.min(1 - LEAST, Math.max(LEAST, share))
  return Math.log(kept / (1 - kept))
}
