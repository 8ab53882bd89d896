import type { RgbImage, Size } from '../pixels.ts'
import { deinterlace } from './deinterlace.ts'
import {
  type FFmpeg,
  FRAME_INTERLACED,
  type Frame,
  MATRIX_BT709,
  MATRIX_UNNAMED,
  PIXEL_RGB24,
  setOptions,
} from './ffmpeg.ts'
import { InvalidMedia } from './invalid-media.ts'

/**
 * The settings closest to `resizeBicubic` (bicubic, a = -0.5). FFmpeg scales and converts to RGB in one step. The
 * result need not match bit for bit, since the frames come from a lossy codec.
 */
const EXACT = { sws_flags: 'bicubic+accurate_rnd+full_chroma_int', param0: '0', param1: '0.5' }
/** For pictures that are only compared with others like them: a tenth of the time. */
const QUICK = { sws_flags: 'area' }

/** Converts decoded frames to RGB images of one size. */
export class RgbScaler implements Disposable {
  readonly #context: InstanceType<FFmpeg['SoftwareScaleContext']>
  readonly #rgb: Frame
  readonly #ffmpeg: FFmpeg

  constructor(ffmpeg: FFmpeg, size: Size, { isQuick = false } = {}) {
    this.#ffmpeg = ffmpeg
    this.#context = new ffmpeg.SoftwareScaleContext()
    this.#context.allocContext()
    setOptions(ffmpeg, this.#context, isQuick ? QUICK : EXACT)
    this.#rgb = new ffmpeg.Frame()
    this.#rgb.alloc()
    this.#rgb.format = PIXEL_RGB24
    this.#rgb.width = size.width
    this.#rgb.height = size.height
    this.#rgb.allocBuffer()
  }

  /** Frames may have different sizes and formats. @throws InvalidMedia */
  convert(frame: Frame): RgbImage {
    if ((frame.flags & FRAME_INTERLACED) !== 0) {
      deinterlace(this.#ffmpeg, frame)
      // FFmpeg would scale the two fields apart, and only to a picture that has two.
      frame.flags &= ~FRAME_INTERLACED
    }
    // FFmpeg takes what is unnamed for SD. Players go by the size.
    if (frame.colorSpace === MATRIX_UNNAMED && isLargerThanSd(frame)) frame.colorSpace = MATRIX_BT709
    if (this.#context.scaleFrameSync(this.#rgb, frame) < 0) throw new InvalidMedia('The video cannot be decoded')
    const { width, height } = this.#rgb
    return { width, height, data: this.#rgb.toBuffer() }
  }

  [Symbol.dispose](): void {
    this.#rgb.free()
    this.#context.freeContext()
  }
}

function isLargerThanSd({ width, height }: Size): boolean {
  return width >= 1280 || height > 576
}
