import { distinctPairs, matchBoxes } from '../../exports/box-matching.ts'
import type { DetectedBox } from '../../exports/detected-picture.ts'
import { getOrMake } from '../../lib/get-or-make.ts'
import { Mean } from './mean.ts'
import type { Place } from './reply-parts.ts'

/** Counts of one category's places. `only_before` and `only_now` are those without a match. */
export interface PlaceCounts {
  readonly matched: number
  /** Matched places that have moved. */
  readonly moved: number
  readonly only_before: number
  readonly only_now: number
  /** Mean IoU of matched boxes, of boxes around matched polygons, and of matched clips; null if there are none. */
  readonly mean_iou: number | null
  /** Between matched points, in the response's unit: pixels, or, in a text, thousandths of the picture's sides. */
  readonly mean_distance: number | null
}

/** Boxes that overlap less are different objects. */
const LEAST_IOU = 0.5

/** Compares the places of one category. */
export class PlaceTally {
  readonly counts = { matched: 0, moved: 0, only_before: 0, only_now: 0 }
  readonly ious = new Mean()
  readonly distances = new Mean()

  get isSame(): boolean {
    return this.counts.moved + this.counts.only_before + this.counts.only_now === 0
  }

  add({ counts, ious, distances }: PlaceTally): void {
    for (const name of Object.keys(counts) as (keyof typeof counts)[]) this.counts[name] += counts[name]
    this.ious.addAll(ious)
    this.distances.addAll(distances)
  }

  match({ kind }: Place, measure: number, hasMoved: boolean): void {
    this.counts.matched++
    if (hasMoved) this.counts.moved++
    if (kind === 'point') this.distances.add(measure)
    else this.ious.add(measure)
  }
}

export function countsOf(tallies: ReadonlyMap<string, PlaceTally>): Record<string, PlaceCounts> {
  const sorted = [...tallies].sort(([one], [other]) => (one < other ? -1 : 1))
  return Object.fromEntries(
    sorted.map(([category, { counts, ious, distances }]) => [
      category,
      { ...counts, mean_iou: ious.mean, mean_distance: distances.mean },
    ]),
  )
}

/** Pairs places that are equal, then boxes by IoU and points by distance, each with the nearest first. */
export function tallyPlaces(before: readonly Place[], now: readonly Place[]): Map<string, PlaceTally> {
  const tallies = new Map<string, PlaceTally>()
  const tallyOf = ({ category }: Place) => getOrMake(tallies, category, () => new PlaceTally())
  const equal = Map.groupBy(before, (place) => JSON.stringify(place))
  const others = now.filter((place) => {
    const partner = equal.get(JSON.stringify(place))?.pop()
    if (partner !== undefined) tallyOf(place).match(place, place.kind === 'point' ? 0 : 1, false)
    return partner === undefined
  })
  const left = [...equal.values()].flat()
  for (const isPoint of [true, false]) {
    const [old, found] = [left, others].map((places) =>
      places.filter(({ kind }) => (kind === 'point') === isPoint),
    ) as [Place[], Place[]]
    const pairs = isPoint ? nearest(old, found) : matchBoxes(old.map(toBox), found.map(toBox), LEAST_IOU).pairs
    for (const pair of pairs) {
      tallyOf(found[pair.found]!).match(found[pair.found]!, 'iou' in pair ? pair.iou : pair.distance, true)
    }
    const [known, taken] = [new Set(pairs.map((pair) => pair.known)), new Set(pairs.map((pair) => pair.found))]
    for (const [index, place] of old.entries()) if (!known.has(index)) tallyOf(place).counts.only_before++
    for (const [index, place] of found.entries()) if (!taken.has(index)) tallyOf(place).counts.only_now++
  }
  return tallies
}

/** The box around a place. Its label is everything that must be equal. */
function toBox(place: Place): DetectedBox {
  const [xs, ys] = [place.points.map(({ x }) => x), place.points.map(({ y }) => y)]
  return {
    label: sortOf(place),
    ...{ left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys) },
  }
}

function nearest(before: readonly Place[], now: readonly Place[]) {
  const candidates = before.flatMap((one, known) =>
    now.flatMap((other, found) => {
      if (sortOf(one) !== sortOf(other)) return []
      const [from, to] = [one.points[0]!, other.points[0]!]
      return [{ known, found, distance: Math.hypot(to.x - from.x, to.y - from.y) }]
    }),
  )
  return distinctPairs(candidates.sort((one, other) => one.distance - other.distance))
}

function sortOf({ kind, category, within }: Place): string {
  return JSON.stringify([kind, category, within])
}
