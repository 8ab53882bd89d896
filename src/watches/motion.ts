import type { RgbImage, Size } from '../media/pixels.ts'

/** The size at which frames are compared. */
export const COMPARED: Size = { width: 64, height: 36 }
/** A difference out of 255: sensor noise is less. */
const LEAST_DIFFERENCE = 8

/** The brightness of each cell. */
export function greyOf({ data, width, height }: RgbImage): Uint8Array {
  return Uint8Array.from({ length: width * height }, (_, cell) => {
    const [red, green, blue] = [data[cell * 3]!, data[cell * 3 + 1]!, data[cell * 3 + 2]!]
    return 0.299 * red + 0.587 * green + 0.114 * blue
  })
}

/** The share of cells that differ between two frames. */
export function motionBetween(one: Uint8Array, other: Uint8Array): number {
  const changed = one.filter((cell, i) => Math.abs(cell - other[i]!) > LEAST_DIFFERENCE)
  return changed.length / one.length
}
