import sharp, { type Metadata, type Sharp } from 'sharp'
import { tuneImages } from '../../lib/guarded/memory.ts'
import { type PixelRegion, regionPixels } from '../coordinates.ts'
import type { RgbImage, Size } from '../pixels.ts'
import { resizeBicubic, targetSize } from '../resize.ts'
import { partsToCut, planTiles } from '../tile-plan.ts'
import { decodeBitmap, isBitmap, readBitmapHeader } from './bitmap.ts'
import type { ByteSource } from './byte-source.ts'
import { InvalidMedia } from './invalid-media.ts'
import { inItsColours, type OpenImage } from './measurements.ts'
import { openForm, openPicture, refuse, UNSUPPORTED_TIFF } from './open-picture.ts'
import type { Cuts, DecodedDocument, DecodedImage, DocumentTask, ImageTask } from './process/protocol.ts'

const MAX_PIXELS = 100_000_000
/** The library takes microseconds for each row, however short it is. libpng has the same limit. */
const MAX_SIDE = 1_000_000
/** For a larger image the library may hold all pixels at once: 370 MiB for a progressive JPEG of 98 megapixels. */
const LARGE_PIXELS = 24_000_000
/**
 * The decoder shrinks an image that is more than four times as large as its target. It shrinks a JPEG to the target
 * size, most of the way while decoding, which loses a little quality and saves a third of the time of a 12-megapixel
 * photo. It shrinks other formats to twice the target size, and `resizeBicubic` takes the last step.
 */
const FAR = 4
const NEAR = 2

tuneImages(sharp)
// Only the types of `MEDIA_TYPES` may be decoded, although the library supports more.
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({
  operation: ['Jpeg', 'Png', 'Webp', 'Heif', 'Tiff'].map((format) => `VipsForeignLoad${format}Buffer`),
})

/** The resolution of a picture that does not give its own. */
const POINTS_PER_INCH = 72
/** The most bytes of the parts that one task cuts out of an image. */
const MOST_CUT_BYTES = 64 * 2 ** 20
/** The most samples that may be measurements: they take five bytes each. */
const MOST_MEASURED = 24_000_000
/**
 * Parts of a plan that the first task returns with the image: the model begins with them while another task cuts the
 * rest.
 */
const FIRST_CUTS = 8

export async function decodeImage(
  { data: source, target: wanted, region, cuts, page }: ImageTask<ByteSource>,
  grant: () => Promise<void>,
): Promise<DecodedImage> {
  const bytes = source.all()
  const { input, meta } = isBitmap(bytes) ? await openBitmap(bytes, grant) : await open(bytes, grant, page)
  // EXIF orientations 5 to 8 include a quarter turn.
  const turned = (meta.orientation ?? 1) >= 5
  const original = turned ? { width: meta.height, height: meta.width } : { width: meta.width, height: meta.height }
  const whole = { left: 0, top: 0, ...original }
  const part = region === null ? whole : regionPixels(region, original)
  const sizeFor = (size: Size) => (isSize(wanted) ? wanted : targetSize(size, wanted))
  const frames = page === undefined ? framesOf(bytes, meta) : 1
  const notes = frames > 1 ? [`An image is an animation of ${frames} frames, of which only the first is looked at`] : []
  const upright = input.autoOrient()
  const parts = cuts === undefined ? [] : partsOf(cuts, original, wanted)
  if (parts.length === 0) {
    const target = sizeFor(part)
    let pipeline = region === null ? upright : upright.extract(part)
    if (part.width > target.width * FAR && part.height > target.height * FAR) {
      const near = meta.format === 'jpeg' ? 1 : NEAR
      // The same Catmull-Rom kernel as in `resizeBicubic`.
      pipeline = pipeline.resize(target.width * near, target.height * near, { fit: 'fill', kernel: 'cubic' })
    }
    return { image: resizeBicubic(await rasterOf(pipeline, meta), target), original, notes }
  }
  const all = await rasterOf(upright, meta)
  const image = await cutOut(all, part, sizeFor(part))
  return { image, original, notes, cuts: await cutAll(all, parts, sizeFor) }
}

/** A TIFF holds a picture for each page. */
export async function readPictures({ data, textOf }: DocumentTask<ByteSource>): Promise<DecodedDocument> {
  const { input, isUnusual } = openForm(data.all(), 1)
  const { pages = 1, density } = await input.metadata().catch((error) => {
    refuse(error, isUnusual ? UNSUPPORTED_TIFF : 'The document is damaged or no TIFF')
  })
  return { pages, dpi: density ? Math.round(density) : POINTS_PER_INCH, texts: textOf.map(() => '') }
}

async function rasterOf(pipeline: Sharp, meta: Metadata): Promise<RgbImage> {
  return flat(await inItsColours(pipeline, meta).catch(refuse))
}

async function flat(pipeline: Sharp): Promise<RgbImage> {
  const { data, info } = await pipeline
    .flatten({ background: '#ffffff' })
    .toColourspace('srgb')
    .raw({ depth: 'uchar' })
    .toBuffer({ resolveWithObject: true })
    .catch(refuse)
  return { width: info.width, height: info.height, data: toRgb(data, info.channels) }
}

function partsOf(cuts: Cuts, original: Size, target: ImageTask['target']): readonly PixelRegion[] {
  if (!('grid' in cuts)) return cuts
  const grids = isSize(target) ? null : planTiles(original, cuts, target)
  return grids === null ? [] : partsToCut(grids).slice(0, FIRST_CUTS)
}

async function cutAll(
  all: RgbImage,
  parts: readonly PixelRegion[],
  sizeFor: (size: Size) => Size,
): Promise<RgbImage[]> {
  const images: RgbImage[] = []
  let bytes = 0
  for (const part of parts) {
    const size = sizeFor(part)
    bytes += size.width * size.height * 3
    if (bytes > MOST_CUT_BYTES && images.length > 0) break
    images.push(await cutOut(all, part, size))
  }
  return images
}

/**
 * There are many parts, and the library stretches them several times as fast as `resizeBicubic`, with other roundings.
 */
async function cutOut({ data, width, height }: RgbImage, part: PixelRegion, target: Size): Promise<RgbImage> {
  const input = sharp(data, { limitInputPixels: false, raw: { width, height, channels: 3 } })
  return flat(input.extract(part).resize({ ...target, fit: 'fill', kernel: 'cubic' }))
}

/** @throws InvalidMedia when it is damaged or too large. */
function open(bytes: Uint8Array, grant: () => Promise<void>, page = 1): Promise<OpenImage> {
  return openPicture(bytes, page, { admit: (size) => admit(size, grant), mostMeasured: MOST_MEASURED })
}

/** The library has no decoder for BMP. */
async function openBitmap(bytes: Uint8Array, grant: () => Promise<void>): Promise<OpenImage> {
  const header = readBitmapHeader(bytes)
  await admit(header, grant)
  const { data, width, height } = decodeBitmap(bytes, header)
  const input = sharp(data, { limitInputPixels: false, raw: { width, height, channels: 3 } })
  return { input, meta: await input.metadata() }
}

async function admit({ width, height }: Size, grant: () => Promise<void>): Promise<void> {
  if (width * height > MAX_PIXELS || Math.max(width, height) > MAX_SIDE) {
    throw new InvalidMedia(
      `The image is too large: ${width} x ${height} pixels; the limit is ${MAX_PIXELS / 1e6} megapixels, and ${MAX_SIDE} pixels on a side`,
    )
  }
  if (width * height > LARGE_PIXELS) await grant()
}

/** Where an animated PNG says how many frames it has: in a chunk before its pixels. */
const PNG_HEAD_BYTES = 64 * 1024

function framesOf(bytes: Uint8Array, { format, pages = 1 }: Metadata): number {
  if (format === 'heif') return framesOfAvif(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
  if (format !== 'png') return pages
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, PNG_HEAD_BYTES))
  for (let at = 8; at + 12 <= head.length; at += 12 + head.readUInt32BE(at)) {
    const type = head.toString('latin1', at + 4, at + 8)
    if (type === 'acTL') return head.readUInt32BE(at + 8)
    if (type === 'IDAT') return 1
  }
  return 1
}

/** The library sees only an animation's still picture. The frames are counted in a box of their own. */
function framesOfAvif(bytes: Buffer): number {
  const movie = bytes.indexOf('moov', 0, 'latin1')
  const sizes = movie === -1 ? -1 : bytes.indexOf('stsz', movie, 'latin1')
  return sizes === -1 || sizes + 16 > bytes.length ? 1 : bytes.readUInt32BE(sizes + 12)
}

function isSize(target: ImageTask['target']): target is Size {
  return 'width' in target
}

/** Greyscale images are decoded to one channel. */
function toRgb(data: Uint8Array, channels: number): Uint8Array {
  if (channels === 3) return data
  const out = new Uint8Array((data.length / channels) * 3)
  for (let i = 0, o = 0; i < data.length; i += channels, o += 3) {
    const [r, g, b] = channels >= 3 ? [data[i]!, data[i + 1]!, data[i + 2]!] : [data[i]!, data[i]!, data[i]!]
    out[o] = r
    out[o + 1] = g
    out[o + 2] = b
  }
  return out
}
