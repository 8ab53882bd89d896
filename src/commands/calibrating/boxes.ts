import { ConfigError } from '../../config/config.ts'
import type { DetectionFit } from '../../models/detection-schema.ts'
import { toTable } from '../output.ts'
import { type FoundList, isListed } from './ask-boxes.ts'
import { areFew, crossFitted, type Depth, FEW_ERRORS, fitDetection, hasReads, rateBoxes, rateLists } from './box-fit.ts'
import {
  type BoxQuality,
  boxQuality,
  calibrationError,
  precisionRecall,
  type Rated,
  type RatedList,
  rankingQuality,
} from './box-quality.ts'
import type { Series } from './diagrams.ts'

/** The calibration of a model's boxes, for its card, with its quality. */
export interface BoxCalibration {
  readonly detection: DetectionFit
  readonly boxes: Readonly<Partial<Record<Depth, Judgement<BoxQuality>>>>
  /** Null if the engine gives no probability of continuing. */
  readonly lists: Judgement<ListQuality> | null
  /** What the user should know. */
  readonly warnings: readonly string[]
  /** For the diagrams. */
  readonly series: readonly Series[]
}

interface Judgement<Quality> {
  /** Without a fit. */
  readonly before: Quality
  /** By a fit of other files; null if a half of the files has no boxes. */
  readonly after: Quality | null
}

/** Quality of the probabilities that lists are complete. */
interface ListQuality {
  readonly lists: number
  /** Share of complete lists. */
  readonly whole: number
  /** Area under the ROC curve; null if all are complete, or none is. */
  readonly auc: number | null
  readonly ece: number
}

/** @throws ConfigError if there is nothing to fit. */
export function calibrateBoxes(lists: readonly FoundList[], model: string): BoxCalibration {
  const listed = lists.flatMap(({ found }) => found.filter(isListed))
  if (listed.length === 0) throw new ConfigError(`'${model}' finds none of the categories`)
  const isRight = listed.map(({ right }) => right)
  if (!isRight.includes(true)) {
    throw new ConfigError(`none of the ${listed.length} boxes of '${model}' is right, so there is nothing to fit`)
  }
  const depths: readonly Depth[] = hasReads(lists) ? ['plain', 'thorough'] : ['plain']
  const series: Series[] = []
  const judged = depths.map((depth) => {
    const rate = (some: readonly FoundList[], fit: DetectionFit | null) => rateBoxes(some, depth, fit)
    const [before, after] = [rate(lists, null), crossFitted<RatedList>(lists, rate)]
    const quality = { before: boxQuality(before), after: after && boxQuality(after) }
    series.push(seriesOf(depth, false, before, quality.before))
    if (after !== null) series.push(seriesOf(depth, true, after, quality.after!))
    return [depth, quality] as const
  })
  const ended = rateLists(lists, null)
  const after = crossFitted<Rated>(lists, rateLists)
  return {
    detection: fitDetection(lists),
    boxes: Object.fromEntries(judged),
    lists: ended.length === 0 ? null : { before: listQuality(ended), after: after && listQuality(after) },
    warnings: [
      ...fewWarning(isRight),
      ...(judged.at(-1)![1].after === null ? [] : idleWarning(judged.at(-1)![1].after!)),
    ],
    series,
  }
}

function seriesOf(
  depth: Depth,
  isAfter: boolean,
  lists: readonly RatedList[],
  { ap50, ece, brier, thresholds }: BoxQuality,
): Series {
  return {
    name: depth,
    isAfter,
    rated: lists.flatMap(({ found }) => found),
    figures: { AP50: ap50, ECE: ece, BRIER: brier },
    curve: { line: precisionRecall(lists), marks: thresholds },
  }
}

function listQuality(rated: readonly Rated[]): ListQuality {
  return {
    lists: rated.length,
    whole: rated.filter(({ right }) => right).length / rated.length,
    auc: rankingQuality(rated),
    ece: calibrationError(rated)!,
  }
}

function fewWarning(isRight: readonly boolean[]): string[] {
  if (!areFew(isRight)) return []
  const right = isRight.filter(Boolean).length
  const wrong = isRight.length - right
  const [count, what] = wrong <= right ? [wrong, 'wrong'] : [right, 'right']
  return [
    `${count} ${what} boxes are too few to learn from, so the fit stays near that of the shipped model: ${FEW_ERRORS} are the least`,
  ]
}

/** A warning if a constant probability would be as good. */
function idleWarning({ right, brier }: BoxQuality): string[] {
  const constant = right! * (1 - right!)
  if (brier! < constant) return []
  return [
    `these scores say nothing: with them the Brier score is ${brier!.toFixed(3)}, and ${constant.toFixed(3)} if each box gets ${right!.toFixed(2)}`,
  ]
}

export function boxesAsText({ detection, boxes, lists }: BoxCalibration): string {
  const rows = Object.entries(boxes).flatMap(([depth, { before, after }]) => [
    [depth, ...qualityCells(before)],
    ...(after === null ? [] : [['  after', ...qualityCells(after)]]),
  ])
  const judged = Object.entries(boxes).map(([depth, { before, after }]) => [depth, after ?? before] as const)
  const thresholds = judged[0]![1].thresholds.map(({ confidence }, i) => [
    confidence.toFixed(1),
    ...judged.flatMap(([, { thresholds }]) => [shown(thresholds[i]!.precision), shown(thresholds[i]!.recall)]),
  ])
  const columns = judged.flatMap(([depth]) => [`PRECISION, ${depth}`, 'RECALL'])
  return [
    toTable(['EVIDENCE', 'BOXES', 'RIGHT', 'AP', 'AP50', 'ECE', 'BRIER'], rows),
    toTable(['CONFIDENCE', ...columns], thresholds),
    ...(lists === null ? [] : [toTable(['LISTS', 'WHOLE', 'AUC', 'AFTER', 'ECE', 'AFTER'], [listCells(lists)])]),
    `Put this into the model's card:\n\n  "detection": ${JSON.stringify(detection)}\n`,
  ].join('\n')
}

function qualityCells({ boxes, right, ap, ap50, ece, brier }: BoxQuality): string[] {
  return [String(boxes), ...[right, ap, ap50, ece, brier].map(shown)]
}

function listCells({ before, after }: Judgement<ListQuality>): string[] {
  const figures = [before.whole, before.auc, after?.auc ?? null, before.ece, after?.ece ?? null]
  return [String(before.lists), ...figures.map(shown)]
}

function shown(figure: number | null): string {
  return figure?.toFixed(3) ?? '-'
}
