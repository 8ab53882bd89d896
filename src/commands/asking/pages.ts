import sharp from 'sharp'
import { decodeBitmap, isBitmap, readBitmapHeader } from '../../media/decoding/bitmap.ts'

/** Which page of a picture is asked about, and how many there are. Frames of an animation count as pages. */
export interface Paged {
  /** As a PNG or, where it is all that there is, as it was given. */
  readonly bytes: Buffer
  readonly pages: number
}

/** The highest value of scientific cameras, which keep 12 bits in 16. */
const TWELVE_BITS = 4095
/** The server takes no more. */
const MOST_BITMAP_PIXELS = 100_000_000

/**
 * One page of a picture, in a format that the server takes.
 * @param page from 1.
 * @param isTaken whether the server takes the format, of which it looks at the first page.
 * @returns null for a page that is not there.
 * @throws Error for bytes that cannot be decoded.
 */
export async function pageOf(given: Buffer, page: number, isTaken: boolean): Promise<Paged | null> {
  if (isBitmap(given)) return page === 1 ? { bytes: await bitmapToPng(given), pages: 1 } : null
  const { pages = 1 } = await sharp(given).metadata()
  if (page > pages) return null
  if (isTaken && page === 1) return { bytes: given, pages }
  return { bytes: await toPng(given, page), pages }
}

/** The server takes BMP, but the library, which says how large a picture is and draws on it, does not. */
async function bitmapToPng(given: Buffer): Promise<Buffer> {
  const header = readBitmapHeader(given)
  // A few bytes of runs can claim any size.
  if (header.width * header.height > MOST_BITMAP_PIXELS) throw new Error('The image is too large')
  const { data, width, height } = decodeBitmap(given, header)
  return sharp(data, { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer()
}

async function toPng(given: Buffer, page: number): Promise<Buffer> {
  const image = sharp(given, { page: page - 1 })
  const { depth, space, format } = await image.metadata()
  // Other formats hold shades at any depth.
  if (format !== 'tiff' || depth === 'uchar' || space === undefined) return image.autoOrient().png().toBuffer()
  const opaque = image.clone().autoOrient().removeAlpha()
  // The library takes 16 bits to have no sign.
  const { data, info } = await (depth === 'short' ? opaque.linear(1, 2 ** 15) : opaque)
    // The same space: a conversion would cut off what has no place in 8 bits.
    .toColourspace(space)
    .raw({ depth: 'float' })
    .toBuffer({ resolveWithObject: true })
  const values = new Float32Array(data.buffer, data.byteOffset, data.byteLength / Float32Array.BYTES_PER_ELEMENT)
  const range = rangeOf(values)
  if (depth === 'ushort' && range.most > TWELVE_BITS) return image.autoOrient().png().toBuffer()
  const { width, height, channels } = info
  const shades = spread(values, depth === 'ushort' ? { ...range, least: 0 } : range)
  return sharp(shades, { raw: { width, height, channels } }).png().toBuffer()
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

/** Measurements become shades: the least is black and the most is white. */
function spread(values: Float32Array, { least, most }: Range): Uint8Array {
  const scale = most > least ? 255 / (most - least) : 0
  return Uint8Array.from(values, (value) => (Number.isFinite(value) ? Math.round((value - least) * scale) : 0))
}
