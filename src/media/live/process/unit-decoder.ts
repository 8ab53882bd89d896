import {
  CODEC_H264,
  CODEC_H265,
  CODEC_MJPEG,
  type CodecContext,
  type FFmpeg,
  type Frame,
  type Packet,
  setOptions,
} from '../../decoding/ffmpeg.ts'
import type { AccessUnit } from './camera-session.ts'

type Codec = AccessUnit['codec']

const CODECS: Readonly<Record<Codec, number>> = { h264: CODEC_H264, h265: CODEC_H265, jpeg: CODEC_MJPEG }
/** 8K, as for videos. Larger pictures are refused before they take memory. */
const MOST_PIXELS = 8192 * 4352
/** The most units whose picture is pending. A decoder holds back at most sixteen. */
const MOST_PENDING = 64

/** When a picture arrived, by the clock of `performance`, and when it was taken, in Unix milliseconds. */
export interface UnitTime {
  readonly at: number
  readonly cameraTime: number | null
}

/** Decodes the units of one camera, in any codec and size. It keeps the newest picture. */
export class UnitDecoder implements Disposable {
  readonly #ffmpeg: FFmpeg
  readonly #packet: Packet
  /** The newest picture, and one to decode into. */
  #newest: Frame
  #spare: Frame
  #context: CodecContext | null = null
  #codec: Codec | null = null
  #pixelAspect: AccessUnit['pixelAspect']
  #time: UnitTime | null = null
  #units = 0n
  /** How many pictures it has decoded. */
  pictures = 0
  readonly #times = new Map<bigint, UnitTime>()

  constructor(ffmpeg: FFmpeg) {
    this.#ffmpeg = ffmpeg
    this.#packet = new ffmpeg.Packet()
    this.#packet.alloc()
    this.#newest = new ffmpeg.Frame()
    this.#newest.alloc()
    this.#spare = new ffmpeg.Frame()
    this.#spare.alloc()
  }

  /** The newest picture, which the next unit may replace; null before the first one. */
  get newest(): { readonly frame: Frame; readonly time: UnitTime } | null {
    return this.#time === null ? null : { frame: this.#newest, time: this.#time }
  }

  /**
   * Units that cannot be decoded are skipped, as players do.
   * @param isAlone whether its picture is wanted at once, because what follows is not decoded.
   */
  decode(
    { codec, data, pixelAspect }: Pick<AccessUnit, 'codec' | 'data' | 'pixelAspect'>,
    time: UnitTime,
    isAlone: boolean,
  ): void {
    const context = this.#contextFor(codec)
    this.#pixelAspect = pixelAspect
    this.#times.set(++this.#units, time)
    if (this.#times.size > MOST_PENDING) this.#times.delete(this.#times.keys().next().value!)
    this.#packet.data = data
    this.#packet.pts = this.#units
    context.sendPacketSync(this.#packet)
    this.#packet.unref()
    this.#receive(context)
    if (!isAlone) return
    // Drains the decoder, which holds pictures back in case an earlier one follows.
    context.sendPacketSync(null)
    this.#receive(context)
    context.flushBuffers()
    this.#times.clear()
  }

  /** Resets the decoder before a key frame. */
  restart(): void {
    this.#context?.flushBuffers()
    this.#times.clear()
  }

  #receive(context: CodecContext): void {
    while (context.receiveFrameSync(this.#spare) >= 0) {
      this.pictures++
      this.#newest.unref()
      // As for videos, the container's aspect takes precedence.
      if (this.#pixelAspect !== undefined) this.#spare.sampleAspectRatio = this.#pixelAspect
      const number = this.#spare.bestEffortTimestamp
      this.#time = this.#times.get(number) ?? { at: performance.now(), cameraTime: null }
      this.#times.delete(number)
      const received = this.#spare
      this.#spare = this.#newest
      this.#newest = received
    }
  }

  #contextFor(codec: Codec): CodecContext {
    if (this.#context !== null && this.#codec === codec) return this.#context
    this.#context?.freeContext()
    this.#context = null
    this.#times.clear()
    const found = this.#ffmpeg.Codec.findDecoder(CODECS[codec])
    if (found === null) throw new Error(`FFmpeg has no decoder for ${codec}`)
    const context = new this.#ffmpeg.CodecContext()
    context.allocContext3(found)
    setOptions(this.#ffmpeg, context, { max_pixels: String(MOST_PIXELS) })
    // Each further thread would hold back a picture.
    context.threadCount = 1
    if (context.open2Sync(found, null) < 0) throw new Error(`FFmpeg cannot decode ${codec}`)
    this.#codec = codec
    this.#context = context
    return context
  }

  [Symbol.dispose](): void {
    this.#context?.freeContext()
    this.#context = null
    this.#packet.free()
    this.#newest.free()
    this.#spare.free()
  }
}
