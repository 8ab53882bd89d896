import type { Metadata, Sharp } from 'sharp'

/** Shades of a picture, upright, in rows from the top. */
export interface Shades {
  readonly data: Uint8Array
  readonly width: number
  readonly height: number
  readonly channels: 1 | 2 | 3 | 4
}

/** The highest value of scientific cameras, which keep 12 bits in 16. */
const TWELVE_BITS = 4095
export const LINEAR_LIGHT = 'scrgb'
/** The share of colours in floats that may lie beyond 0 to 1, as highlights do. */
const MOST_BEYOND = 0.05
const OTHER_SPACES: readonly (string | undefined)[] = ['cmyk', 'lab', 'labs', undefined]

/** Whether the samples of a TIFF may be measurements. Other formats, and 16 bits with transparency, hold shades. */
export function mayBeMeasured({ format, depth, space, channels, hasAlpha }: Metadata): boolean {
  const isPicture = depth === 'uchar' || (depth === 'ushort' && hasAlpha)
  return format === 'tiff' && !isPicture && channels <= 4 && !OTHER_SPACES.includes(space)
}

/**
 * Spreads the samples of a TIFF over the shades: the least is black and the most is white.
 * @param image for whose metadata `mayBeMeasured` holds.
 * @returns null where 16 bits are shades already, or floats are colours in linear light, which the library converts.
 */
export async function spreadShades(image: Sharp, { depth, space }: Metadata): Promise<Shades | null> {
  const opaque = image.clone().autoOrient().removeAlpha()
  // The library takes 16 bits to have no sign.
  const { data, info } = await (depth === 'short' ? opaque.linear(1, 2 ** 15) : opaque)
    // The same space: a conversion would cut off what has no place in 8 bits.
    .toColourspace(space)
    .raw({ depth: 'float' })
    .toBuffer({ resolveWithObject: true })
  const values = new Float32Array(data.buffer, data.byteOffset, data.byteLength / Float32Array.BYTES_PER_ELEMENT)
  const range = rangeOf(values)
  if (depth === 'ushort' && range.most > TWELVE_BITS) return null
  if (space === LINEAR_LIGHT && shareBeyond(values) <= MOST_BEYOND) return null
  const { width, height, channels } = info
  return { data: spread(values, depth === 'ushort' ? { ...range, least: 0 } : range), width, height, channels }
}

interface Range {
  readonly least: number
  readonly most: number
}

/** Range of the numbers among the values. */
function rangeOf(values: Float32Array): Range {
  let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const value of values) {
    if (!Number.isFinite(value)) continue
    if (value < least) least = value
    if (value > most) most = value
  }
  return { least, most }
}

/** Which share of the values is beyond 0 to 1. */
function shareBeyond(values: Float32Array): number {
  let beyond = 0
  for (const value of values) if (value < 0 || value > 1) beyond++
  return beyond / values.length
}

function spread(values: Float32Array, { least, most }: Range): Uint8Array {
  const scale = most > least ? 255 / (most - least) : 0
  // `Uint8Array.from` would list the values first, which takes ten times their memory.
  const shades = new Uint8Array(values.length)
  for (let at = 0; at < values.length; at++) {
    const value = values[at]!
    if (Number.isFinite(value)) shades[at] = Math.round((value - least) * scale)
  }
  return shades
}
