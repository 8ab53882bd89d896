import type { AudioLimits } from '../../models/card.ts'
import { audioTokens, mostAudioSeconds, SAMPLE_RATE } from '../audio-tokens.ts'
import { type FFmpeg, type Frame, SAMPLE_FLOAT } from './ffmpeg.ts'
import { InvalidMedia } from './invalid-media.ts'
import { monoShares } from './mono.ts'
import type { DecodedAudio } from './process/protocol.ts'

const MONO = { nbChannels: 1, order: 1, mask: 4n }
/** Shorter audio is padded with silence: encoders need a window of at least 25 ms. */
const MIN_SAMPLES = SAMPLE_RATE / 10
/** Shorter pauses than this are the rounding of timestamps. */
const PAUSE_SECONDS = 0.1

/** A stretch of samples without a pause. */
interface Stretch {
  /** Where it begins at the earliest, in samples. */
  readonly from: number
  readonly pieces: Float32Array[]
}

/** Collects decoded audio as mono at the encoders' sample rate. */
export class Track {
  readonly #ffmpeg: FFmpeg
  readonly #limits: AudioLimits
  readonly #stretches: Stretch[] = [{ from: 0, pieces: [] }]
  #length = 0
  /** The time, in seconds, at which the next frame follows the last one. */
  #next = 0
  #resampler: { readonly context: InstanceType<FFmpeg['SoftwareResampleContext']>; readonly input: string } | null =
    null

  constructor(ffmpeg: FFmpeg, limits: AudioLimits) {
    this.#ffmpeg = ffmpeg
    this.#limits = limits
  }

  /** @param time when the frame is heard, in seconds; null: after the one before. */
  add(frame: Frame, time: number | null): void {
    if (time !== null && time > this.#next + PAUSE_SECONDS) this.#pauseUntil(time)
    this.#next += frame.nbSamples / frame.sampleRate
    const { nbChannels, order, mask } = frame.channelLayout
    const input = [frame.sampleRate, frame.format, nbChannels, order, mask].join(' ')
    if (this.#resampler?.input !== input) this.#restart(frame, input)
    this.#convert(frame.extendedData, frame.nbSamples)
  }

  /**
   * Puts silence between the stretches, unless the model could not take that much: then they are joined.
   * @returns null when the track is empty.
   */
  finish(): DecodedAudio | null {
    this.#flush()
    if (this.#length === 0) return null
    const stretches = this.#stretches.filter(({ pieces }) => pieces.length > 0)
    const timed = stretches.reduce((end, { from, pieces }) => Math.max(end, from) + lengthOf(pieces), 0)
    const keepsPauses = this.#fits(timed)
    const samples = new Float32Array(Math.max(keepsPauses ? timed : this.#length, MIN_SAMPLES))
    let at = 0
    for (const { from, pieces } of stretches) {
      if (keepsPauses) at = Math.max(at, from)
      for (const piece of pieces) {
        samples.set(piece, at)
        at += piece.length
      }
    }
    return { samples }
  }

  close(): void {
    this.#resampler?.context.free()
    this.#resampler = null
  }

  #pauseUntil(time: number): void {
    // The samples that the resampler still holds come before the pause.
    this.#flush()
    this.close()
    this.#stretches.push({ from: Math.round(time * SAMPLE_RATE), pieces: [] })
    this.#next = time
  }

  #restart(frame: Frame, input: string): void {
    this.#flush()
    this.close()
    const context = new this.#ffmpeg.SoftwareResampleContext()
    const { channelLayout, format, sampleRate } = frame
    const code = context.allocSetOpts2(MONO, SAMPLE_FLOAT, SAMPLE_RATE, channelLayout, format, sampleRate)
    // Without our shares, the library would add the channels up, and reject some layouts.
    const shares = code < 0 ? code : context.setMatrix(monoShares(channelLayout), channelLayout.nbChannels)
    if (shares < 0 || context.init() < 0) throw new InvalidMedia('The audio cannot be decoded')
    this.#resampler = { context, input }
  }

  #flush(): void {
    if (this.#resampler !== null) this.#convert(null, 0)
  }

  #convert(data: Buffer[] | null, samples: number): void {
    const { context } = this.#resampler!
    const room = context.getOutSamples(samples)
    if (room <= 0) return
    const out = Buffer.alloc(room * Float32Array.BYTES_PER_ELEMENT)
    const count = context.convertSync([out], room, data, samples)
    if (count < 0) throw new InvalidMedia('The audio cannot be decoded')
    if (count === 0) return
    const piece = new Float32Array(out.buffer, out.byteOffset, count)
    // Float formats can hold NaN and infinities.
    for (let i = 0; i < count; i++) piece[i] = Number.isFinite(piece[i]) ? Math.min(Math.max(piece[i]!, -1), 1) : 0
    this.#stretches.at(-1)!.pieces.push(piece)
    this.#length += count
    if (!this.#fits(this.#length)) throw this.#tooLong()
  }

  #fits(length: number): boolean {
    return audioTokens(length, this.#limits) <= this.#limits.maxTokens
  }

  #tooLong(): InvalidMedia {
    return new InvalidMedia(
      `The audio is longer than ${this.#limits.maxTokens} audio tokens, about ${mostAudioSeconds(this.#limits)} seconds`,
      'audio_token_limit_exceeded',
    )
  }
}

function lengthOf(pieces: readonly Float32Array[]): number {
  return pieces.reduce((sum, { length }) => sum + length, 0)
}
