import { seededRandom, shuffled } from '../random.ts'
import { type Box, CONVENTIONS, type Convention, centreOf, type Frame, type Point, placeOn } from './convention.ts'
import type { NumberGroup } from './number-groups.ts'

/** A place that a model wrote, and the correct one. */
export interface Answer {
  readonly numbers: NumberGroup
  readonly frame: Frame
  readonly target: Box
}

export interface Fit {
  /**
   * `fits`: one convention explains the answers better than all others. `ambiguous`: some are within noise of each
   * other. `noise`: none is better than the same answers to other images. `too few`: nothing can be said.
   */
  readonly verdict: 'fits' | 'ambiguous' | 'noise' | 'too few'
  readonly answers: number
  readonly best: Convention
  /** Mean error of the best convention in patches. */
  readonly error: number
  /** Conventions whose error here is within noise of the best one's, the best one first. */
  readonly within: readonly Convention[]
  /**
   * How likely an error as small as the best one is when the places say nothing about the images, from 0 to 1: the share
   * of random assignments of the answers to the images that do as well.
   */
  readonly chance: number
  /** Mean error of a convention in patches. */
  errorOf(convention: Convention): number
}

/** With fewer answers, there are too few permutations to exclude chance: 6 have 720. */
export const FEWEST_ANSWERS = 6
/** Answers are noise if chance does as well with more than this probability. */
const CHANCE_LIMIT = 0.01
const ASSIGNMENTS = 999
/** Conventions that differ by less than this, in patches, cannot be distinguished: 0..999 and 0..1000. */
const SAME_ERROR = 0.05
/** Standard errors that the mean of paired differences must exceed: Student's 97.5% quantile for six answers. */
const STANDARD_ERRORS = 2.5

/**
 * Finds the convention under which places are closest to the correct ones. Errors are mean distances of the corners (of
 * the centre, for points) in patches. A single error is capped at half the image's diagonal, so that one wrong object
 * does not outweigh the others.
 *
 * A permutation test decides whether that is more than chance: the centres of the targets are permuted between the
 * images, and each permutation may choose its own best convention, as the answers did. The test is exact if the centres
 * were assigned to the images at random.
 *
 * @param preferred comes first among conventions that explain the answers equally well.
 */
export function fitConventions(answers: readonly Answer[], preferred: Convention | null = null): Fit {
  const conventions =
    preferred === null ? CONVENTIONS : [preferred, ...CONVENTIONS.filter((one) => !same(one, preferred))]
  const places = conventions.map((convention) =>
    answers.map(({ numbers, frame }) => placeOn(numbers, convention, frame)),
  )
  const errors = places.map((row) => row.map((place, i) => errorIn(answers[i]!, place, answers[i]!.target)))
  const means = errors.map(mean)
  const least = means.indexOf(Math.min(...means))
  const isSame = (i: number, other: number) => apart(places[i]!, places[other]!, answers) < SAME_ERROR
  // The preferred convention among those that look the same here, otherwise the most usual one.
  const best = answers.length === 0 ? 0 : conventions.findIndex((_, i) => isSame(i, least))
  const errorOf = (convention: Convention) => means[conventions.findIndex((one) => same(one, convention))]!
  const about = { answers: answers.length, best: conventions[best]!, error: means[best]!, errorOf }
  if (answers.length < FEWEST_ANSWERS) return { ...about, verdict: 'too few', within: [], chance: 1 }

  const chance = chanceOf(answers, places, means[best]!)
  if (chance > CHANCE_LIMIT) return { ...about, verdict: 'noise', within: [], chance }
  const others = conventions.map((convention, i) => ({ convention, gap: gapOf(errors[i]!, errors[best]!), i }))
  const within = others.filter(({ i, gap }) => i !== best && (isSame(i, best) || gap <= STANDARD_ERRORS))
  return {
    ...about,
    chance,
    verdict: within.every(({ i }) => isSame(i, best)) ? 'fits' : 'ambiguous',
    within: [conventions[best]!, ...within.map(({ convention }) => convention)],
  }
}

export function same(a: Convention, b: Convention): boolean {
  return a.space === b.space && a.order === b.order && a.form === b.form
}

/** Mean of the paired differences, in standard errors. */
function gapOf(errors: readonly number[], best: readonly number[]): number {
  const differences = errors.map((error, i) => error - best[i]!)
  const average = mean(differences)
  const variance = differences.reduce((sum, value) => sum + (value - average) ** 2, 0) / (differences.length - 1)
  return average / Math.max(Math.sqrt(variance / differences.length), 1e-9)
}

/** Mean distance between the places of two conventions, in patches. */
function apart(a: readonly Box[], b: readonly Box[], answers: readonly Answer[]): number {
  return mean(answers.map((answer, i) => errorIn(answer, a[i]!, b[i]!)))
}

/** Share of the permutations, this one included, under which some convention has an error of at most `least`. */
function chanceOf(answers: readonly Answer[], places: readonly (readonly Box[])[], least: number): number {
  const targets = answers.map((own) => answers.map(({ target }) => moved(own.target, centreOf(target))))
  const errors = places.map((row) =>
    row.map((place, i) => targets[i]!.map((target) => errorIn(answers[i]!, place, target))),
  )
  const random = seededRandom(answers.length)
  const order = answers.map((_, i) => i)
  let asGood = 1
  for (let round = 0; round < ASSIGNMENTS; round++) {
    const assigned = shuffled(order, random)
    const limit = (least + 1e-9) * answers.length
    if (errors.some((rows) => sumWithin(rows, assigned, limit))) asGood++
  }
  return asGood / (ASSIGNMENTS + 1)
}

function sumWithin(rows: readonly (readonly number[])[], assigned: readonly number[], limit: number): boolean {
  let sum = 0
  for (const [i, row] of rows.entries()) {
    sum += row[assigned[i]!]!
    if (sum > limit) return false
  }
  return true
}

function moved(box: Box, to: Point): Box {
  const { x, y } = centreOf(box)
  const shift = (point: Point): Point => ({ x: point.x + to.x - x, y: point.y + to.y - y })
  return { from: shift(box.from), to: shift(box.to) }
}

/** In patches. For a point, only its distance from the target's centre counts. */
function errorIn({ numbers, frame: { patches } }: Answer, place: Box, target: Box): number {
  const most = Math.hypot(patches.width, patches.height) / 2
  const distance = (a: Point, b: Point) => Math.hypot((a.x - b.x) * patches.width, (a.y - b.y) * patches.height)
  const error =
    numbers.length === 2
      ? distance(place.from, centreOf(target))
      : (distance(place.from, target.from) + distance(place.to, target.to)) / 2
  return Math.min(error, most)
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? Number.POSITIVE_INFINITY : values.reduce((sum, value) => sum + value, 0) / values.length
}
