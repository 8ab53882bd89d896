import sharp from 'sharp'
import { regionPixels } from '../coordinates.ts'
import type { RgbImage, Size } from '../pixels.ts'
import { resizeBicubic, targetSize } from '../resize.ts'
import type { ByteSource } from './byte-source.ts'
import type { DecodedImage, ImageTask } from './protocol.ts'
import { Refusal } from './refusal.ts'

const MAX_PIXELS = 100_000_000
/** Of a larger picture the library may have to hold all pixels at once: 370 MiB of a progressive JPEG of 98 megapixels. */
const LARGE_PIXELS = 24_000_000
/**
 * What is more than four times as large as it is to be, the decoder shrinks. A JPEG to the size itself, most of the way
 * while it is decoded, which loses a little (a third of the time of a 12-megapixel photo is at stake); anything else to twice
 * the size, and the last step is ours.
 */
const FAR = 4
const NEAR = 2

sharp.cache(false)
sharp.concurrency(1)
// Nothing but the contract's types is decoded, whatever the library could.
sharp.block({ operation: ['VipsForeignLoad'] })
sharp.unblock({ operation: ['VipsForeignLoadJpegBuffer', 'VipsForeignLoadPngBuffer', 'VipsForeignLoadWebpBuffer'] })

export async function decodeImage(
  { data: source, target: wanted, region }: ImageTask<ByteSource>,
  grant: () => Promise<void>,
): Promise<DecodedImage> {
  const input = sharp(source.all(), { failOn: 'error', limitInputPixels: false, pages: 1 })
  const meta = await input.metadata().catch(() => {
    throw new Refusal('The picture is damaged or not an image')
  })
  if (meta.width * meta.height > MAX_PIXELS) {
    throw new Refusal(
      `The picture is too large: ${meta.width} x ${meta.height} pixels, the limit is ${MAX_PIXELS / 1e6} megapixels`,
    )
  }
  if (meta.width * meta.height > LARGE_PIXELS) await grant()
  // EXIF orientations 5 to 8 turn by a quarter.
  const turned = (meta.orientation ?? 1) >= 5
  const original = turned ? { width: meta.height, height: meta.width } : { width: meta.width, height: meta.height }
  const part = region === null ? { left: 0, top: 0, ...original } : regionPixels(region, original)
  const target = isSize(wanted) ? wanted : targetSize(part, wanted)
  let pipeline = input.autoOrient()
  if (region !== null) pipeline = pipeline.extract(part)
  if (part.width > target.width * FAR && part.height > target.height * FAR) {
    const near = meta.format === 'jpeg' ? 1 : NEAR
    // The same curve as ours: Catmull and Rom's.
    pipeline = pipeline.resize(target.width * near, target.height * near, { fit: 'fill', kernel: 'cubic' })
  }
  const { data, info } = await pipeline
    .flatten({ background: '#ffffff' })
    .toColourspace('srgb')
    .raw({ depth: 'uchar' })
    .toBuffer({ resolveWithObject: true })
    .catch(() => {
      throw new Refusal('The picture is damaged or cut short')
    })
  const upright: RgbImage = { width: info.width, height: info.height, data: toRgb(data, info.channels) }
  return { image: resizeBicubic(upright, target), original }
}

function isSize(target: ImageTask['target']): target is Size {
  return 'width' in target
}

/** Grey pictures come out with one channel. */
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
