import type { Point } from '../marks/mark.ts'

/** Edges and corners of a box, by the directions of the compass. */
export const HANDLES = ['nw', 'n', 'ne', 'e', 'se', 's', 'sw', 'w'] as const
export type Handle = (typeof HANDLES)[number]

/**
 * A mark that is dragged. It stays on the image, and the first corner of a box stays its top left.
 * @param points parts of the image's sides, as a mark has them.
 * @param handle what is dragged; null moves the whole.
 */
export function reshape(points: readonly Point[], handle: Handle | null, by: Point): Point[] {
  if (handle === null) {
    const dx = shift(
      points.map(({ x }) => x),
      by.x,
    )
    const dy = shift(
      points.map(({ y }) => y),
      by.y,
    )
    return points.map(({ x, y }) => ({ x: x + dx, y: y + dy }))
  }
  const [from, to] = points as [Point, Point]
  const left = handle.includes('w') ? within(from.x + by.x) : from.x
  const right = handle.includes('e') ? within(to.x + by.x) : to.x
  const top = handle.includes('n') ? within(from.y + by.y) : from.y
  const bottom = handle.includes('s') ? within(to.y + by.y) : to.y
  return [
    { x: Math.min(left, right), y: Math.min(top, bottom) },
    { x: Math.max(left, right), y: Math.max(top, bottom) },
  ]
}

/** How far all values can move without leaving 0..1. */
function shift(values: readonly number[], by: number): number {
  return Math.max(-Math.min(...values), Math.min(by, 1 - Math.max(...values)))
}

function within(value: number): number {
  return Math.min(1, Math.max(0, value))
}
