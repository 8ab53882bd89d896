import sharp, { type Sharp } from 'sharp'
import { decodeBitmap, isBitmap, readBitmapHeader } from '../../media/decoding/bitmap.ts'
import { inItsColours } from '../../media/decoding/measurements.ts'
import { isMisread, openForm, openPicture } from '../../media/decoding/open-picture.ts'
import type { Size } from '../../media/pixels.ts'

/** A page of a picture, and the number of pages. Frames of an animation count as pages. */
export interface Paged {
  /** The page as PNG, or the given file if it has only this page. */
  readonly bytes: Buffer
  /** Size of the upright page. */
  readonly size: Size
  readonly pages: number
}

/** The limit of the server. */
const MOST_PIXELS = 100_000_000

/**
 * One page of a picture, in a format that the server accepts.
 * @param page from 1.
 * @param isTaken whether the server accepts the format, of which it uses the first page.
 * @returns null for a page that does not exist.
 * @throws Error for bytes that cannot be decoded.
 */
export async function pageOf(given: Buffer, page: number, isTaken: boolean): Promise<Paged | null> {
  if (isBitmap(given)) return page === 1 ? { ...(await bitmapToPng(given)), pages: 1 } : null
  const { pages = 1, autoOrient: size } = await openForm(given, 1).input.metadata()
  if (page > pages) return null
  return isTaken && page === 1 ? { bytes: given, size, pages } : { ...(await toPng(given, page)), pages }
}

/** The server accepts BMP, but the library that measures pictures and draws on them does not. */
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

/** A picture that any program shows like the server reads it: the given one, if that already is. */
export async function plainPicture(given: Buffer): Promise<Buffer> {
  return (await isMisread(given)) ? (await toPng(given, 1)).bytes : given
}
