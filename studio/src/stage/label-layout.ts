import type { Point } from '../marks/mark.ts'
import type { Size } from './viewport.ts'

export const LABEL_HEIGHT = 20
/** Radius of the dot that shows a point, in CSS pixels. */
export const POINT_RADIUS = 7

/** Where a label stands: some CSS pixels from a corner of its mark, so that it keeps to the mark while the image zooms. */
export interface LabelPlace {
  /** The mark's corner, in pixels of the image. */
  readonly corner: Point
  /** From the corner to the label's top-left corner, in CSS pixels. */
  readonly by: Point
  /** Whether it would cover another label; such a label shows only when its mark is lit. */
  readonly isCrowded: boolean
}

export interface Labelled {
  readonly id: string
  readonly kind: 'point' | 'box' | 'polygon'
  /** Bounds of the mark, in pixels of the image. */
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
  /** Width of the label, in CSS pixels. */
  readonly width: number
}

/**
 * Finds a place for each label beside its mark, on the image and apart from the labels before it.
 * @param scale CSS pixels per pixel of the image.
 */
export function placeLabels(marks: readonly Labelled[], image: Size, scale: number): Map<string, LabelPlace> {
  const room = { width: image.width * scale, height: image.height * scale }
  const taken: { x: number; y: number; width: number }[] = []
  const isFree = ({ x, y }: Point, width: number) =>
    taken.every(
      (other) =>
        x >= other.x + other.width ||
        x + width <= other.x ||
        y >= other.y + LABEL_HEIGHT ||
        y + LABEL_HEIGHT <= other.y,
    )
  const places = new Map<string, LabelPlace>()
  for (const mark of marks) {
    const { id, width } = mark
    const all = candidates(mark).map(({ corner, by }) => {
      // Only so far to the left that it ends with the image.
      const x = Math.max(0, Math.min(corner.x * scale + by.x, room.width - width))
      return { corner, by: { x: x - corner.x * scale, y: by.y }, at: { x, y: corner.y * scale + by.y } }
    })
    const inside = all.filter(({ at }) => at.y >= 0 && at.y + LABEL_HEIGHT <= room.height)
    const free = inside.find(({ at }) => isFree(at, width))
    const { corner, by, at } = free ?? inside[0] ?? all[0]!
    const isCrowded = free === undefined && !isFree(at, width)
    if (!isCrowded) taken.push({ ...at, width })
    places.set(id, { corner, by, isCrowded })
  }
  return places
}

/** Best first. */
function candidates({ kind, left, top, right, bottom, width }: Labelled) {
  if (kind === 'point') {
    const corner = { x: left, y: top }
    const beside = POINT_RADIUS + 3
    return [
      { corner, by: { x: beside, y: -LABEL_HEIGHT / 2 } },
      { corner, by: { x: -beside - width, y: -LABEL_HEIGHT / 2 } },
      { corner, by: { x: -width / 2, y: -beside - LABEL_HEIGHT } },
      { corner, by: { x: -width / 2, y: beside } },
    ]
  }
  const [above, within] = [-LABEL_HEIGHT - 1, 2]
  return [
    { corner: { x: left, y: top }, by: { x: -1, y: above } },
    { corner: { x: left, y: top }, by: { x: 1, y: within } },
    { corner: { x: left, y: bottom }, by: { x: -1, y: 1 } },
    { corner: { x: right, y: top }, by: { x: 1 - width, y: above } },
    { corner: { x: right, y: bottom }, by: { x: 1 - width, y: 1 } },
    { corner: { x: left, y: bottom }, by: { x: 1, y: -LABEL_HEIGHT - 2 } },
  ]
}
