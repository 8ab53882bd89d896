import { invalidRequest } from '../lib/errors/errors.ts'
import { GRID, type GridRegion, regionPixels } from '../media/coordinates.ts'
import type { Size } from '../media/pixels.ts'

/** A part of a picture, as fractions of its sides. */
export interface Edges {
  readonly top: number
  readonly left: number
  readonly bottom: number
  readonly right: number
}

/** Minimum of either side, in pixels of the frame. In less, a model sees nothing. */
const LEAST_SIDE = 16
/** Digits of a fraction: finer than a pixel of any frame. */
const DIGITS = 6

export function gridOf({ top, left, bottom, right }: Edges): GridRegion {
  return { top: top * GRID, left: left * GRID, bottom: bottom * GRID, right: right * GRID }
}

/** @throws ApiError 400 naming `region` when it is too small in a frame of this size. */
export function checkRegion(region: Edges, frame: Size): void {
  const { width, height } = regionPixels(gridOf(region), frame)
  if (Math.min(width, height) >= LEAST_SIDE) return
  throw invalidRequest(
    `The region is ${width} x ${height} pixels of a frame of ${frame.width} x ${frame.height}; each side must be at least ${LEAST_SIDE}`,
    'region',
  )
}

/** Converts a box in the region to the same box in the frame. */
export function boxInFrame({ top, left, bottom, right }: Edges, region: Edges, frame: Size): Edges {
  const part = regionPixels(gridOf(region), frame)
  const across = (x: number) => Number(((part.left + x * part.width) / frame.width).toFixed(DIGITS))
  const down = (y: number) => Number(((part.top + y * part.height) / frame.height).toFixed(DIGITS))
  return { top: down(top), left: across(left), bottom: down(bottom), right: across(right) }
}
