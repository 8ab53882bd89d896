import type { Size } from './pixels.ts'

/**
 * The model sees a stretched image and uses a 0..1000 grid over it. Stretching adds no offset, so the same grid covers
 * the upright original, and grid and pixels convert without knowing the prepared size.
 */
export interface Point {
  readonly x: number
  readonly y: number
}

export const GRID = 1000

/** Grid 0..1000 to pixels of the upright original: round(v / 1000 x side), clamped to the image. */
export function gridToPixels(point: Point, original: Size): Point {
  return { x: toPixel(point.x, original.width), y: toPixel(point.y, original.height) }
}

/** Pixels of the upright original to the nearest grid point, clamped to 0..1000. */
export function pixelsToGrid(point: Point, original: Size): Point {
  return { x: toGrid(point.x, original.width), y: toGrid(point.y, original.height) }
}

/** A region of the image on the 0..1000 grid. */
export interface GridRegion {
  readonly left: number
  readonly top: number
  readonly right: number
  readonly bottom: number
}

/** Whether the region lies within the grid and is not empty. */
export function isRegion({ left, top, right, bottom }: GridRegion): boolean {
  return left >= 0 && top >= 0 && left < right && top < bottom && right <= GRID && bottom <= GRID
}

/** A rectangle of whole pixels of the upright original. */
export interface PixelRegion extends Size {
  readonly left: number
  readonly top: number
}

/** The pixels of the upright original that the region covers, at least one. */
export function regionPixels(region: GridRegion, { width, height }: Size): PixelRegion {
  const [left, right] = covered(region.left, region.right, width)
  const [top, bottom] = covered(region.top, region.bottom, height)
  return { left, top, width: right - left, height: bottom - top }
}

function covered(from: number, to: number, side: number): [first: number, end: number] {
  const first = Math.min(Math.round((from / GRID) * side), side - 1)
  return [first, Math.max(Math.round((to / GRID) * side), first + 1)]
}

function toPixel(value: number, side: number): number {
  return Math.min(Math.max(Math.round((value / GRID) * side), 0), side - 1)
}

function toGrid(value: number, side: number): number {
  return Math.min(Math.max(Math.round((value / side) * GRID), 0), GRID)
}
