import type { RgbImage, Size } from '../pixels.ts'
import { type ColourCodes, type ToSrgb, toSrgb } from './colours/wide-colours.ts'
import { deinterlace } from './deinterlace.ts'
import { type FFmpeg, FRAME_INTERLACED, type Frame, MATRIX_BT709, PIXEL_RGB24, setOptions, UNNAMED } from './ffmpeg.ts'
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
  #known: ColourCodes & { readonly convert: ToSrgb | null } = { primaries: UNNAMED, transfer: UNNAMED, convert: null }

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
      // FFmpeg would scale the two fields separately, and only to a picture that has two.
      frame.flags &= ~FRAME_INTERLACED
    }
    // Without a matrix, FFmpeg assumes SD. Players go by the size.
    if (frame.colorSpace === UNNAMED && isLargerThanSd(frame)) frame.colorSpace = MATRIX_BT709
    const { colorPrimaries: primaries, colorTrc: transfer } = frame
    const convert = this.#wideColours({ primaries, transfer })
    if (convert !== null) {
      // FFmpeg would convert them too, but takes seconds to prepare, and clips highlights.
      frame.colorPrimaries = UNNAMED
      frame.colorTrc = UNNAMED
    }
    const code = this.#context.scaleFrameSync(this.#rgb, frame)
    frame.colorPrimaries = primaries
    frame.colorTrc = transfer
    if (code < 0) throw new InvalidMedia('The video cannot be decoded')
    const { width, height } = this.#rgb
    const data = this.#rgb.toBuffer()
    convert?.(data, 3)
    return { width, height, data }
  }

  /** The converter of the last frame is kept: all frames of a video have the same colours. */
  #wideColours(codes: ColourCodes): ToSrgb | null {
    if (codes.primaries !== this.#known.primaries || codes.transfer !== this.#known.transfer)
      this.#known = { ...codes, convert: toSrgb(codes) }
    return this.#known.convert
  }

  [Symbol.dispose](): void {
    this.#rgb.free()
    this.#context.freeContext()
  }
}

function isLargerThanSd({ width, height }: Size): boolean {
  return width >= 1280 || height > 576
}
