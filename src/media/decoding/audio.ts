import type { AudioLimits } from '../../models/card.ts'
import { audioTokens, mostAudioSeconds, SAMPLE_RATE } from '../audio-tokens.ts'
import type { AudioType, VideoType } from '../media-type.ts'
import type { ByteSource } from './byte-source.ts'
import { Container } from './container.ts'
import { type FFmpeg, type Frame, MEDIA_AUDIO, SAMPLE_FLOAT, type Stream } from './ffmpeg.ts'
import { InvalidMedia } from './invalid-media.ts'
import { monoShares } from './mono.ts'
import type { AudioTask, DecodedAudio } from './protocol.ts'

const MONO = { nbChannels: 1, order: 1, mask: 4n }
/** Shorter audio is padded with silence: encoders need a window of at least 25 ms. */
const MIN_SAMPLES = SAMPLE_RATE / 10

export async function decodeAudio(
  ffmpeg: FFmpeg,
  { data, format, limits }: AudioTask<ByteSource>,
): Promise<DecodedAudio> {
  const audio = await decodeTrack(ffmpeg, data, format, limits)
  if (audio === null) throw new InvalidMedia('The file has no audio')
  return audio
}

/**
 * Decodes the audio track.
 * @returns null when there is none or it is empty.
 * @throws InvalidMedia as soon as the audio is known to be longer than the model takes.
 */
export async function decodeTrack(
  ffmpeg: FFmpeg,
  data: ByteSource,
  format: VideoType | AudioType,
  limits: AudioLimits,
): Promise<DecodedAudio | null> {
  const container = await Container.open(ffmpeg, data, format)
  try {
    const stream = container.select(MEDIA_AUDIO)
    return stream === null ? null : await decodeStream(ffmpeg, container, stream, limits)
  } finally {
    await container.close()
  }
}

async function decodeStream(
  ffmpeg: FFmpeg,
  container: Container,
  stream: Stream,
  limits: AudioLimits,
): Promise<DecodedAudio | null> {
  const decoder = container.decoder(stream, 1)
  const frame = new ffmpeg.Frame()
  frame.alloc()
  const track = new Track(ffmpeg, limits)
  const take = () => {
    while (decoder.receiveFrameSync(frame) >= 0) {
      track.add(frame)
      frame.unref()
    }
  }
  try {
    for await (const packet of container.packets(stream)) {
      decoder.sendPacketSync(packet)
      take()
    }
    decoder.sendPacketSync(null)
    take()
    return track.finish()
  } finally {
    track.close()
    frame.free()
    decoder.freeContext()
  }
}

/** Collects decoded audio as mono at the encoders' sample rate. */
class Track {
  readonly #ffmpeg: FFmpeg
  readonly #limits: AudioLimits
  readonly #pieces: Float32Array[] = []
  #length = 0
  #resampler: { readonly context: InstanceType<FFmpeg['SoftwareResampleContext']>; readonly input: string } | null =
    null

  constructor(ffmpeg: FFmpeg, limits: AudioLimits) {
    this.#ffmpeg = ffmpeg
    this.#limits = limits
  }

  add(frame: Frame): void {
    const { nbChannels, order, mask } = frame.channelLayout
    const input = [frame.sampleRate, frame.format, nbChannels, order, mask].join(' ')
    if (this.#resampler?.input !== input) this.#restart(frame, input)
    this.#convert(frame.extendedData, frame.nbSamples)
  }

  /** @returns null when the track is empty. */
  finish(): DecodedAudio | null {
    this.#flush()
    if (this.#length === 0) return null
    const samples = new Float32Array(Math.max(this.#length, MIN_SAMPLES))
    let at = 0
    for (const piece of this.#pieces) {
      samples.set(piece, at)
      at += piece.length
    }
    return { samples }
  }

  close(): void {
    this.#resampler?.context.free()
    this.#resampler = null
  }

  #restart(frame: Frame, input: string): void {
    this.#flush()
    this.close()
    const context = new this.#ffmpeg.SoftwareResampleContext()
    const { channelLayout, format, sampleRate } = frame
    const code = context.allocSetOpts2(MONO, SAMPLE_FLOAT, SAMPLE_RATE, channelLayout, format, sampleRate)
    // Without shares of our own, the library would add the channels up, and know nothing of some layouts.
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
    this.#pieces.push(piece)
    this.#length += count
    if (audioTokens(this.#length, this.#limits) > this.#limits.maxTokens) throw this.#tooLong()
  }

  #tooLong(): InvalidMedia {
    return new InvalidMedia(
      `The audio is longer than ${this.#limits.maxTokens} audio tokens, about ${mostAudioSeconds(this.#limits)} seconds`,
      'audio_token_limit_exceeded',
    )
  }
}
