import type { Leaf } from '../../grounding/annotation.ts'
import { overlap } from './search.ts'

/** What was found under a label, and what was found under the names of tracks. */
interface FoundThings {
  readonly plain: readonly Leaf[]
  /** Their mentions are the names. */
  readonly named: readonly Leaf[]
}

/** Boxes with at least this IoU are of one thing, if they have one name. */
const SAME_NAME_IOU = 0.5
/** From this IoU on they are, under any names. */
const SAME_THING_IOU = 0.7

/**
 * Says under which name each thing was found too, and which things were found under their names alone.
 * @returns `names` of the plain things, null for none; `others` without those that are among the plain ones.
 */
export function matchNames({ plain, named }: FoundThings): {
  readonly names: readonly (string | null)[]
  readonly others: readonly Leaf[]
} {
  const names = plain.map((thing) => nameOf(thing, named))
  const others = named.filter(({ mention, points }) =>
    plain.every((thing, index) => {
      const iou = overlap(thing.points, points)
      return iou < SAME_NAME_IOU || (iou < SAME_THING_IOU && names[index] !== mention)
    }),
  )
  return { names, others }
}

/** The mention of the thing that a box fits best; null for none. */
export function nameOf({ points }: Leaf, named: readonly Leaf[]): string | null {
  let [name, most]: [string | null, number] = [null, SAME_NAME_IOU]
  for (const one of named) {
    const iou = overlap(one.points, points)
    if (iou < most) continue
    most = iou
    name = one.mention ?? null
  }
  return name
}
