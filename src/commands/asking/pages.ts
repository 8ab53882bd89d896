import sharp from 'sharp'
import { decodeBitmap, isBitmap, readBitmapHeader } from '../../media/decoding/bitmap.ts'
import {
  hasUnknown,
  inItsColours,
  mayBeMeasured,
  spreadShades,
  withoutUnknown,
} from '../../media/decoding/measurements.ts'

/** Which page of a picture is asked about, and how many there are. Frames of an animation count as pages. */
export interface Paged {
  /** As a PNG or, where it is all that there is, as it was given. */
  readonly bytes: Buffer
  readonly pages: number
}

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
  const meta = await image.metadata()
  const isOpaque = hasUnknown(given, page)
  const known = isOpaque ? { ...meta, hasAlpha: false } : meta
  const shades = mayBeMeasured(known) ? await spreadShades(image, known) : null
  if (shades === null) {
    const opened = isOpaque ? await withoutUnknown({ input: image, meta }) : { input: image, meta }
    return (await inItsColours(opened.input.autoOrient(), opened.meta)).png().toBuffer()
  }
  const { data, width, height, channels } = shades
  return sharp(data, { raw: { width, height, channels } }).png().toBuffer()
}
