import type { Leaf } from '../../grounding/annotation.ts'
import { overlap } from './search.ts'

/** Objects found under labels, and objects found under the names of tracks. */
interface FoundThings {
  readonly plain: readonly Leaf[]
  /** Their mentions are the names. */
  readonly named: readonly Leaf[]
}

/** Boxes of the same name with at least this IoU are one object. */
const SAME_NAME_IOU = 0.5
/** Boxes with at least this IoU are one object, under any names. */
const SAME_THING_IOU = 0.7

/**
 * Finds the name under which each object was also found, and the objects that were found only under a name.
 * @returns `names` of the plain objects, null for none; `others` are the named objects that match no plain one.
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

/** The mention of the object that a box fits best; null for none. */
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
