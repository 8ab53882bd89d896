import type { Mark, Point } from './mark.ts'

interface Size {
  readonly width: number
  readonly height: number
}

/** Points of a mark in pixels of an image. */
export function inPixels(points: readonly Point[], { width, height }: Size): Point[] {
  return points.map(({ x, y }) => ({ x: x * width, y: y * height }))
}

/** The least upright box around a mark, in pixels of an image. */
export function boundsOf({ points }: Pick<Mark, 'points'>, size: Size) {
  const places = inPixels(points, size)
  const [xs, ys] = [places.map(({ x }) => x), places.map(({ y }) => y)]
  return { left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys) }
}
