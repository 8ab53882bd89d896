import {
  boxConfidence,
  boxFeatures,
  chanceOf,
  listComplete,
  listFeatures,
} from '../../conversation/detecting/confidence.ts'
import { sumOf } from '../../lib/sum.ts'
import { BOX_FEATURES, type Curve, type DetectionFit, LIST_FEATURES } from '../../models/detection-schema.ts'
import { type FoundList, isListed } from './ask-boxes.ts'
import type { Rated, RatedList } from './box-quality.ts'
import { halves } from './halves.ts'
import { fitIsotonic } from './isotonic.ts'
import { fitLogistic } from './logistic.ts'
import { PRIOR } from './prior.ts'

/** With fewer wrong boxes, or fewer right ones, a fit stays near the prior. */
export const FEW_ERRORS = 10
/** The strength of the prior in that case: see `fitLogistic`. */
const PRIOR_STRENGTH = 10
/** Steps need more boxes. They are fitted to groups of neighbours, so that no single box makes a step. */
const LEAST_FOR_STEPS = 200
const IN_GROUP = 10
const MOST_GROUPS = 100

/** The evidence for a box's confidence: only what the model writes, or also one further box and a read of each box. */
export type Depth = 'plain' | 'thorough'

/** @param lists with boxes. `thorough` is fitted too if some of them have been read. */
export function fitDetection(lists: readonly FoundList[]): DetectionFit {
  const fitBoxes = (depth: Depth) => {
    const boxes = lists.flatMap((list) => boxesOf(list, depth))
    const rows = boxes.map(({ evidence }) => boxFeatures(evidence))
    return fitCurve(BOX_FEATURES, rows, isRightOf(boxes), PRIOR[depth])
  }
  const ended = lists.filter(({ more }) => more !== null)
  const rows = ended.map((list) => listFeatures(endOf(list)))
  return {
    confidence: fitBoxes('plain'),
    ...(hasReads(lists) ? { thorough: fitBoxes('thorough') } : {}),
    complete: ended.length === 0 ? PRIOR.complete : fitCurve(LIST_FEATURES, rows, ended.map(isWhole), PRIOR.complete),
  }
}

export function hasReads(lists: readonly FoundList[]): boolean {
  return lists.some(({ found }) => found.some(({ evidence }) => evidence.read !== null))
}

/** The boxes with their confidence. @param fit null for the confidence without a fit. */
export function rateBoxes(lists: readonly FoundList[], depth: Depth, fit: DetectionFit | null): readonly RatedList[] {
  return lists.map((list) => ({
    known: list.known,
    found: boxesOf(list, depth).map(({ box, evidence, right }) => {
      return { box, right, confidence: boxConfidence(evidence, fit) }
    }),
  }))
}

/** The probability that each list is complete, and whether it is. */
export function rateLists(lists: readonly FoundList[], fit: DetectionFit | null): readonly Rated[] {
  const ended = lists.filter(({ more }) => more !== null)
  return ended.map((list) => ({ confidence: listComplete(endOf(list), fit), right: isWhole(list) }))
}

/**
 * Rates each half of the files by a fit of the other half, so that no data is judged by a fit of itself. Null if a half
 * would have no boxes.
 */
export function crossFitted<Result>(
  lists: readonly FoundList[],
  rate: (lists: readonly FoundList[], fit: DetectionFit) => readonly Result[],
): readonly Result[] | null {
  const [first, second] = halves(lists)
  const isEmpty = (half: readonly FoundList[]) => half.every(({ found }) => !found.some(isListed))
  if (isEmpty(first) || isEmpty(second)) return null
  return [...rate(first, fitDetection(second)), ...rate(second, fitDetection(first))]
}

/** Whether there are too few examples for a fit of their own. */
export function areFew(isRight: readonly boolean[]): boolean {
  const right = isRight.filter(Boolean).length
  return Math.min(right, isRight.length - right) < FEW_ERRORS
}

function boxesOf({ found }: FoundList, depth: Depth): FoundList['found'] {
  if (depth === 'thorough') return found
  return found.filter(isListed).map((one) => ({ ...one, evidence: { ...one.evidence, read: null } }))
}

function isRightOf(boxes: FoundList['found']): boolean[] {
  return boxes.map(({ right }) => right)
}

function endOf({ found, more }: FoundList) {
  return { more: more!, listLength: found.filter(isListed).length }
}

/** Whether the model by itself has found all known boxes. */
function isWhole({ known, found }: FoundList): boolean {
  return found.filter((one) => isListed(one) && one.right).length === known.length
}

function fitCurve<Feature extends string>(
  names: readonly Feature[],
  features: readonly Readonly<Record<Feature, number>>[],
  isRight: readonly boolean[],
  prior: Curve<Feature>,
): Curve<Feature> {
  const rows = features.map((row) => names.map((name) => row[name]))
  const isFew = areFew(isRight)
  const towards = { bias: prior.bias, weights: names.map((name) => prior.weights[name] ?? 0) }
  const pull = isFew ? { strength: PRIOR_STRENGTH, prior: towards } : { strength: 1, prior: null }
  const { bias, weights } = fitLogistic(rows, isRight, pull)
  const weighted = names.map((name, i) => [name, rounded(weights[i]!)] as const).filter(([, weight]) => weight !== 0)
  const line = { bias: rounded(bias), weights: Object.fromEntries(weighted) as Curve<Feature>['weights'], steps: [] }
  if (isFew || rows.length < LEAST_FOR_STEPS) return line
  const points = features.map((row, i) => ({ at: chanceOf(row, line), value: Number(isRight[i]) }))
  return { ...line, steps: stepsOf(points) }
}

/** The steps at the ends of each block. No value is more extreme than the number of boxes in it allows. */
function stepsOf(points: readonly { readonly at: number; readonly value: number }[]): Curve<string>['steps'] {
  const sorted = [...points].sort((one, other) => one.at - other.at)
  const count = Math.min(MOST_GROUPS, Math.floor(sorted.length / IN_GROUP))
  const groups = [...Map.groupBy(sorted.entries(), ([i]) => Math.floor((i * count) / sorted.length)).values()]
  const blocks = groups.map((group) => {
    const own = group.map(([, point]) => point)
    return {
      count: own.length,
      from: own[0]!.at,
      to: own.at(-1)!.at,
      value: sumOf(own, ({ value }) => value) / own.length,
    }
  })
  const least = 1 / (points.length + 2)
  const steps: (readonly [number, number])[] = []
  for (const { from, to, value } of fitIsotonic(blocks)) {
    for (const at of [from, to]) {
      const step = [rounded(at), rounded(Math.min(1 - least, Math.max(least, value)))] as const
      if (steps.length === 0 || step[0] > steps.at(-1)![0]) steps.push(step)
    }
  }
  return steps
}

function rounded(value: number): number {
  return Number(value.toFixed(4))
}
