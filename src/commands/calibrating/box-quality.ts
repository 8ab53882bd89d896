import type { DetectedBox } from '../../exports/detected-picture.ts'
import { iouOf } from '../../lib/rectangle.ts'
import { sumOf } from '../../lib/sum.ts'

/** A claim with its probability, and whether it is right. */
export interface Rated {
  readonly confidence: number
  readonly right: boolean
}

/** The found and the known boxes of one category in one picture. */
export interface RatedList {
  readonly known: readonly DetectedBox[]
  readonly found: readonly (Rated & { readonly box: DetectedBox })[]
}

/** Quality of boxes and their probabilities, over all categories. */
export interface BoxQuality {
  readonly boxes: number
  /** Share of right boxes. Null if there are none, like the figures below. */
  readonly right: number | null
  /** Average precision as COCO computes it: over IoU .5 to .95, and at .5. Null if there are no known boxes. */
  readonly ap: number | null
  readonly ap50: number | null
  /** Expected calibration error, in ten bins of equal width. */
  readonly ece: number | null
  readonly brier: number | null
  readonly thresholds: readonly Threshold[]
}

/** Quality of the boxes with at least this confidence. */
export interface Threshold {
  readonly confidence: number
  readonly precision: number | null
  readonly recall: number | null
}

const THRESHOLDS = [0.3, 0.5, 0.7, 0.9] as const
/** .5, .55 .. .95. */
const IOUS = Array.from({ length: 10 }, (_, i) => (50 + 5 * i) / 100)
/** As pycocotools rounds them: its 0.7 is more than 7 of 10. */
const RECALLS = Array.from({ length: 101 }, (_, i) => i * 0.01)
/** Bins of the calibration error. */
export const BOX_BINS = 10

export function boxQuality(lists: readonly RatedList[]): BoxQuality {
  const boxes = lists.flatMap(({ found }) => found)
  const known = sumOf(lists, ({ known }) => known.length)
  const precisions = IOUS.map((least) => averagePrecision(curveOf(lists, least)))
  const points = precisionRecall(lists)
  return {
    boxes: boxes.length,
    right: meanOf(boxes, ({ right }) => Number(right)),
    ap: known === 0 ? null : meanOf(precisions, (precision) => precision),
    ap50: known === 0 ? null : precisions[0]!,
    ece: calibrationError(boxes),
    brier: brierScore(boxes),
    thresholds: THRESHOLDS.map((confidence) => {
      const last = points.findLast((point) => point.confidence >= confidence)
      return { confidence, precision: last?.precision ?? null, recall: known === 0 ? null : (last?.recall ?? 0) }
    }),
  }
}

/** Precision and recall at an IoU of .5 for each confidence of a box, the highest first. */
export function precisionRecall(lists: readonly RatedList[]): readonly Threshold[] {
  const known = sumOf(lists, ({ known }) => known.length)
  let [count, matched] = [0, 0]
  return [...Map.groupBy(sortedHits(lists, IOUS[0]!), ({ confidence }) => confidence)].map(([confidence, tied]) => {
    count += tied.length
    matched += tied.filter(({ right }) => right).length
    return { confidence, precision: matched / count, recall: known === 0 ? null : matched / known }
  })
}

/** The greatest precision at a confidence threshold with at least this recall; null if no threshold has it. */
export function precisionAt(lists: readonly RatedList[], recall: number): number | null {
  return curveOf(lists, IOUS[0]!).find((point) => point.recall >= recall)?.precision ?? null
}

/** Mean squared error of the probabilities; null if there are none. */
export function brierScore(rated: readonly Rated[]): number | null {
  return meanOf(rated, ({ confidence, right }) => (confidence - Number(right)) ** 2)
}

/** Expected calibration error in bins of equal width; null if there are no probabilities. */
export function calibrationError(rated: readonly Rated[], count = BOX_BINS): number | null {
  const errors = binsOf(rated, count).map((bin) =>
    Math.abs(sumOf(bin, ({ confidence, right }) => confidence - Number(right))),
  )
  return rated.length === 0 ? null : sumOf(errors, (error) => error) / rated.length
}

/** Bins by confidence, of equal width from 0 to 1. */
export function binsOf<One extends Rated>(rated: readonly One[], count = BOX_BINS): readonly (readonly One[])[] {
  const bins = Map.groupBy(rated, ({ confidence }) => Math.min(count - 1, Math.floor(confidence * count)))
  return Array.from({ length: count }, (_, index) => bins.get(index) ?? [])
}

/**
 * Area under the ROC curve: how often a right claim has a higher probability than a wrong one, with ties counted half.
 * Null if there are no right or no wrong ones.
 */
export function rankingQuality(rated: readonly Rated[]): number | null {
  const sorted = [...Map.groupBy(rated, ({ confidence }) => confidence)].sort(([one], [other]) => one - other)
  let [wrong, wins] = [0, 0]
  for (const [, tied] of sorted) {
    const right = tied.filter(({ right }) => right).length
    wins += right * (wrong + (tied.length - right) / 2)
    wrong += tied.length - right
  }
  const right = rated.length - wrong
  return right === 0 || wrong === 0 ? null : wins / (right * wrong)
}

/** After each box, by descending confidence; the precision is the greatest from there on. */
type Curve = readonly { readonly recall: number; readonly precision: number }[]

function curveOf(lists: readonly RatedList[], leastIou: number): Curve {
  const known = sumOf(lists, ({ known }) => known.length)
  let right = 0
  const points = sortedHits(lists, leastIou).map((hit, index) => {
    right += Number(hit.right)
    return { recall: right / known, precision: right / (index + 1) }
  })
  for (let i = points.length - 2; i >= 0; i--) {
    points[i]!.precision = Math.max(points[i]!.precision, points[i + 1]!.precision)
  }
  return points
}

/** Matches like pycocotools: by descending confidence, each box with the unmatched known box that it overlaps most. */
function sortedHits(lists: readonly RatedList[], leastIou: number): readonly Rated[] {
  return bySurety(lists.flatMap((list) => hitsOf(list, leastIou)))
}

function hitsOf({ known, found }: RatedList, leastIou: number): readonly Rated[] {
  const left = new Set(known)
  return bySurety(found).map(({ box, confidence }) => {
    let [best, most] = [null as DetectedBox | null, leastIou]
    for (const other of left) {
      const iou = iouOf(box, other)
      if (iou >= most) [best, most] = [other, iou]
    }
    return { confidence, right: best !== null && left.delete(best) }
  })
}

function bySurety<One extends Rated>(rated: readonly One[]): One[] {
  return [...rated].sort((one, other) => other.confidence - one.confidence)
}

function averagePrecision(points: Curve): number {
  let next = 0
  const precisions = RECALLS.map((recall) => {
    while (next < points.length && points[next]!.recall < recall) next++
    return points[next]?.precision ?? 0
  })
  return sumOf(precisions, (precision) => precision) / RECALLS.length
}

function meanOf<Item>(items: readonly Item[], of: (item: Item) => number): number | null {
  return items.length === 0 ? null : sumOf(items, of) / items.length
}
