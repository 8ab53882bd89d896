import sharp from 'sharp'
import { tuneImages } from '../../../lib/guarded/memory.ts'
import { type GridRegion, regionPixels } from '../../coordinates.ts'
import type { FFmpeg, Frame } from '../../decoding/ffmpeg.ts'
import { RgbScaler } from '../../decoding/rgb-scaler.ts'
import type { ImageTarget } from '../../image-detail.ts'
import type { RgbImage, Size } from '../../pixels.ts'
import { targetSize } from '../../resize.ts'

tuneImages(sharp)

/** Sizes of which the scaler is kept: that at which frames are compared, and one for a model or two. */
const MOST_SCALERS = 4
/** Smaller pictures are compared with others like them, and not shown to a model. */
const QUICK_PIXELS = 64 * 64
const JPEG_QUALITY = 90

/** Frames that the parent still wants something of, by their numbers. */
export class FrameStore {
  readonly #ffmpeg: FFmpeg
  readonly #frames = new Map<number, Frame>()
  readonly #scalers = new Map<string, RgbScaler>()
  #numbers = 0

  constructor(ffmpeg: FFmpeg) {
    this.#ffmpeg = ffmpeg
  }

  /** Keeps a frame until it is released. @returns its number; null where memory has run out. */
  keep(frame: Frame): number | null {
    const copy = frame.clone()
    if (copy === null) return null
    this.#frames.set(++this.#numbers, copy)
    return this.#numbers
  }

  /** @param number null for none. */
  release(number: number | null): void {
    if (number === null) return
    this.#frames.get(number)?.free()
    this.#frames.delete(number)
  }

  /** Null for a frame that was released. */
  async view(number: number, target: ImageTarget | Size, region: GridRegion | null): Promise<RgbImage | null> {
    const frame = this.#frames.get(number)
    if (frame === undefined) return null
    const original = originalSize(frame)
    const sizeOf = (size: Size) => ('width' in target ? target : targetSize(size, target))
    if (region === null) return this.#scaled(frame, sizeOf(original))
    const part = regionPixels(region, original)
    const cut = this.#pictureOf(frame).extract(part)
    const { data, info } = await cut
      .resize({ ...sizeOf(part), fit: 'fill', kernel: 'cubic' })
      .raw()
      .toBuffer({ resolveWithObject: true })
    return { width: info.width, height: info.height, data }
  }

  /** Null for a frame that was released, or none. */
  async jpeg(number: number | null): Promise<Uint8Array | null> {
    const frame = number === null ? undefined : this.#frames.get(number)
    return frame === undefined ? null : this.jpegOf(frame)
  }

  jpegOf(frame: Frame): Promise<Uint8Array> {
    return this.#pictureOf(frame).jpeg({ quality: JPEG_QUALITY }).toBuffer()
  }

  /** All pixels of a frame, which are copied before this returns. */
  #pictureOf(frame: Frame) {
    using scaler = new RgbScaler(this.#ffmpeg, originalSize(frame))
    const { data, width, height } = scaler.convert(frame)
    return sharp(data, { limitInputPixels: false, raw: { width, height, channels: 3 } })
  }

  #scaled(frame: Frame, size: Size): RgbImage {
    const key = `${size.width} ${size.height}`
    const known = this.#scalers.get(key)
    this.#scalers.delete(key)
    const scaler = known ?? new RgbScaler(this.#ffmpeg, size, { isQuick: size.width * size.height <= QUICK_PIXELS })
    // The one that was used last comes last.
    this.#scalers.set(key, scaler)
    if (this.#scalers.size > MOST_SCALERS) {
      const [oldest] = this.#scalers.keys()
      this.#scalers.get(oldest!)![Symbol.dispose]()
      this.#scalers.delete(oldest!)
    }
    return scaler.convert(frame)
  }
}

/** Pixels need not be square. */
export function originalSize({ width, height, sampleAspectRatio: { num, den } }: Frame): Size {
  return { width: num > 0 && den > 0 ? Math.max(1, Math.round((width * num) / den)) : width, height }
}
