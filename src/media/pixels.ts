/** An upright 8-bit RGB raster: `data` holds height x width x 3 bytes, row by row, red first. */
export interface RgbImage {
  readonly width: number
  readonly height: number
  readonly data: Uint8Array
}

export interface Size {
  readonly width: number
  readonly height: number
}

/** A multiple of the unit, at least one. */
export function toMultiple(value: number, unit: number, round: (value: number) => number = Math.round): number {
  return Math.max(1, round(value / unit)) * unit
}
