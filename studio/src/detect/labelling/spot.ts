import type { DetectedPicture } from '../../../../src/exports/detected-picture.ts'
import type { Mark, Point, Role } from '../../marks/mark.ts'
import type { Attachment } from '../../media/attachment.ts'
import { chanceText } from '../../widgets/quantities.ts'

/** An object on a picture, in pixels of the upright picture. A point has no width and no height. */
export interface Spot {
  readonly id: string
  readonly label: string
  readonly kind: 'box' | 'point'
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
  /** How likely it is to be right, from 0 to 1; absent where the search did not say, or a person decided. */
  readonly confidence?: number
}

type Sized = Pick<Attachment, 'id' | 'width' | 'height'>

/** Marks are kept as long as their spots, so that the stage renders only what has changed. */
const marks = new WeakMap<Spot, Mark>()

export function toMark(spot: Spot, { id: media, width, height }: Sized, role?: Role): Mark {
  const known = marks.get(spot)
  if (known?.media === media && known.role === role) return known
  const { id, label, kind, left, top, right, bottom, confidence } = spot
  const from = { x: left / width, y: top / height }
  const points = kind === 'point' ? [from] : [from, { x: right / width, y: bottom / height }]
  const note = confidence === undefined ? {} : { note: chanceText(confidence) }
  const mark = { id, media, label, kind, points, ...note, ...(role ? { role } : {}) }
  marks.set(spot, mark)
  return mark
}

/** Where a mark lies, in whole pixels. @returns null for a box without a pixel inside. */
export function placeOf(
  points: readonly Point[],
  { width, height }: Sized,
): Omit<Spot, 'id' | 'label' | 'confidence'> | null {
  const xs = points.map(({ x }) => Math.round(x * width))
  const ys = points.map(({ y }) => Math.round(y * height))
  const [left, right] = [Math.min(...xs), Math.max(...xs)]
  const [top, bottom] = [Math.min(...ys), Math.max(...ys)]
  if (points.length > 1 && (left === right || top === bottom)) return null
  return { kind: points.length === 1 ? 'point' : 'box', left, top, right, bottom }
}

/** Reading order. */
export function comparePlaces(one: Spot, other: Spot): number {
  return one.top - other.top || one.left - other.left
}

export function areaOf({ left, top, right, bottom }: Omit<Spot, 'id' | 'label' | 'kind'>): number {
  return (right - left) * (bottom - top)
}

/** @param name as the exported file is to name the picture. */
export function toDetectedPicture(name: string, { width, height }: Sized, spots: readonly Spot[]): DetectedPicture {
  return {
    name,
    width,
    height,
    boxes: spots.filter(({ kind }) => kind === 'box'),
    points: spots.filter(({ kind }) => kind === 'point').map(({ left: x, top: y, ...spot }) => ({ ...spot, x, y })),
  }
}
