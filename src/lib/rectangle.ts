/** In any unit; `right` and `bottom` are not less than `left` and `top`. */
export interface Rectangle {
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
}

export function areaOf({ left, top, right, bottom }: Rectangle): number {
  return (right - left) * (bottom - top)
}

/** Intersection over union, 0..1; 0 for rectangles without area. */
export function iouOf(one: Rectangle, other: Rectangle): number {
  const width = Math.min(one.right, other.right) - Math.max(one.left, other.left)
  const height = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top)
  if (width <= 0 || height <= 0) return 0
  const both = width * height
  return both / (areaOf(one) + areaOf(other) - both)
}
