import sharp, { type Sharp } from 'sharp'
import { decodeBitmap, isBitmap, readBitmapHeader } from '../../media/decoding/bitmap.ts'
import { inItsColours } from '../../media/decoding/measurements.ts'
import { isMisread, openForm, openPicture } from '../../media/decoding/open-picture.ts'
import type { Size } from '../../media/pixels.ts'

/** Which page of a picture is asked about, and how many there are. Frames of an animation count as pages. */
export interface Paged {
  /** As a PNG or, where it is all that there is, as it was given. */
  readonly bytes: Buffer
  /** Size of the upright page. */
  readonly size: Size
  readonly pages: number
}

/** The server takes no more. */
const MOST_PIXELS = 100_000_000

/**
 * One page of a picture, in a format that the server takes.
 * @param page from 1.
 * @param isTaken whether the server takes the format, of which it looks at the first page.
 * @returns null for a page that is not there.
 * @throws Error for bytes that cannot be decoded.
 */
export async function pageOf(given: Buffer, page: number, isTaken: boolean): Promise<Paged | null> {
  if (isBitmap(given)) return page === 1 ? { ...(await bitmapToPng(given)), pages: 1 } : null
  const { pages = 1, autoOrient: size } = await openForm(given, 1).input.metadata()
  if (page > pages) return null
  return isTaken && page === 1 ? { bytes: given, size, pages } : { ...(await toPng(given, page)), pages }
}

/** The server takes BMP, but the library, which says how large a picture is and draws on it, does not. */
function bitmapToPng(given: Buffer): Promise<Png> {
  const header = readBitmapHeader(given)
  // A few bytes of runs can claim any size.
  admit(header)
  const { data, width, height } = decodeBitmap(given, header)
  return pngOf(sharp(data, { raw: { width, height, channels: 3 } }))
}

async function toPng(given: Buffer, page: number): Promise<Png> {
  const { input, meta } = await openPicture(given, page, { admit })
  return pngOf(await inItsColours(input.autoOrient(), meta))
}

type Png = Omit<Paged, 'pages'>

async function pngOf(image: Sharp): Promise<Png> {
  const { data, info } = await image.png().toBuffer({ resolveWithObject: true })
  return { bytes: data, size: { width: info.width, height: info.height } }
}

function admit({ width, height }: Size): void {
  if (width * height > MOST_PIXELS) throw new Error('The image is too large')
}

/** A picture that any program shows as the server reads it: as it was given, where it is one. */
export async function plainPicture(given: Buffer): Promise<Buffer> {
  return (await isMisread(given)) ? (await toPng(given, 1)).bytes : given
}
