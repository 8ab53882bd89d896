import sharp from 'sharp'
import { tuneImages } from '../../../lib/guarded/memory.ts'
import { type GridRegion, type PixelRegion, regionPixels } from '../../coordinates.ts'
import type { FFmpeg, Frame } from '../../decoding/ffmpeg.ts'
import { RgbScaler } from '../../decoding/rgb-scaler.ts'
import type { ImageTarget } from '../../image-detail.ts'
import type { RgbImage, Size } from '../../pixels.ts'
import { targetSize } from '../../resize.ts'

tuneImages(sharp)

/** The most scalers to keep, one for each size: that at which frames are compared, and one for a model or two. */
const MOST_SCALERS = 4
/** Smaller pictures are only compared with each other, and not shown to a model. */
const QUICK_PIXELS = 64 * 64
const JPEG_QUALITY = 90

/** Frames that the parent has not released, by their numbers. */
export class FrameStore {
  readonly #ffmpeg: FFmpeg
  readonly #frames = new Map<number, Frame>()
  readonly #scalers = new Map<string, RgbScaler>()
  #numbers = 0

  constructor(ffmpeg: FFmpeg) {
    this.#ffmpeg = ffmpeg
  }

  /** Keeps a frame until it is released. @returns its number; null if memory has run out. */
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
    const size = sizeOf(part)
    const across = size.width / part.width
    const down = size.height / part.height
    // If the frame does not become larger, scaling all of it is faster than converting each of its pixels.
    if (Math.max(across, down) <= 1) {
      const place = { left: Math.round(part.left * across), top: Math.round(part.top * down), ...size }
      const whole = {
        width: Math.max(Math.round(original.width * across), place.left + size.width),
        height: Math.max(Math.round(original.height * down), place.top + size.height),
      }
      return partOf(this.#scaled(frame, whole, isCompared(size)), place)
    }
    const { data, info } = await this.#pictureOf(frame, true)
      .extract(part)
      .resize({ ...size, fit: 'fill', kernel: 'cubic' })
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
  #pictureOf(frame: Frame, isQuick = false) {
    using scaler = new RgbScaler(this.#ffmpeg, originalSize(frame), { isQuick })
    const { data, width, height } = scaler.convert(frame)
    return sharp(data, { limitInputPixels: false, raw: { width, height, channels: 3 } })
  }

  #scaled(frame: Frame, size: Size, isQuick = isCompared(size)): RgbImage {
    const key = `${size.width} ${size.height} ${isQuick}`
    const known = this.#scalers.get(key)
    this.#scalers.delete(key)
    const scaler = known ?? new RgbScaler(this.#ffmpeg, size, { isQuick })
    // The most recently used scaler comes last.
    this.#scalers.set(key, scaler)
    if (this.#scalers.size > MOST_SCALERS) {
      const [oldest] = this.#scalers.keys()
      this.#scalers.get(oldest!)![Symbol.dispose]()
      this.#scalers.delete(oldest!)
    }
    return scaler.convert(frame)
  }
}

function isCompared({ width, height }: Size): boolean {
  return width * height <= QUICK_PIXELS
}

function partOf({ data, width: pitch }: RgbImage, { left, top, width, height }: PixelRegion): RgbImage {
  const rows = Array.from({ length: height }, (_, row) => {
    const from = ((top + row) * pitch + left) * 3
    return data.subarray(from, from + width * 3)
  })
  return { width, height, data: Buffer.concat(rows) }
}

/** Pixels need not be square. */
export function originalSize({ width, height, sampleAspectRatio: { num, den } }: Frame): Size {
  return { width: num > 0 && den > 0 ? Math.max(1, Math.round((width * num) / den)) : width, height }
}
