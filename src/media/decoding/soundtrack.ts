import type { AudioLimits } from '../../models/card.ts'
import type { VideoType } from '../media-type.ts'
import { type DecodedStream, decodeStream, UNDECODABLE } from './audio.ts'
import type { ByteSource } from './byte-source.ts'
import { Container } from './container.ts'
import { type FFmpeg, MEDIA_AUDIO } from './ffmpeg.ts'
import { InvalidMedia } from './invalid-media.ts'
import type { DecodedVideo } from './process/protocol.ts'

export interface SoundtrackOptions {
  readonly format: VideoType
  readonly limits: AudioLimits
  /** The container's time, in seconds, that the samples begin at. */
  readonly origin: number
}

type Soundtrack = Pick<DecodedVideo, 'sound' | 'notes'>

/** Each track that is tried is read from the beginning. Films have a few languages. */
const MOST_TRACKS = 8

/**
 * Decodes the best of a video's audio tracks that can be decoded. A video whose sound cannot be decoded can still be
 * seen.
 * @throws InvalidMedia only when the audio is longer than the model takes.
 */
export async function decodeSoundtrack(
  ffmpeg: FFmpeg,
  data: ByteSource,
  options: SoundtrackOptions,
): Promise<Soundtrack> {
  let problem: string | null = null
  for (let index = 0; index < MOST_TRACKS; index++) {
    try {
      const tried = await decodeTrack(ffmpeg, data, index, options)
      if (tried === null) break
      const { audio, problem: unread, damaged } = tried
      if (audio !== null) return { sound: audio, notes: unread !== null || damaged > 0 ? [IN_PART] : [] }
      problem ??= unread?.message ?? (damaged > 0 ? UNDECODABLE : 'The audio is empty')
    } catch (error) {
      if (error instanceof InvalidMedia && error.code !== null) throw error
      problem ??= error instanceof InvalidMedia ? error.message : UNDECODABLE
    }
  }
  return {
    sound: null,
    notes: problem === null ? [] : [`The soundtrack of a video is not analysed: ${lowerFirst(problem)}`],
  }
}

const IN_PART = 'The soundtrack of a video is damaged; a part of it is analysed'

/** @returns null when there is no such track. */
async function decodeTrack(
  ffmpeg: FFmpeg,
  data: ByteSource,
  index: number,
  { format, limits, origin }: SoundtrackOptions,
): Promise<DecodedStream | null> {
  await using container = await Container.open(ffmpeg, data, format)
  const stream = container.streamsOf(MEDIA_AUDIO)[index]
  return stream === undefined ? null : await decodeStream(ffmpeg, { container, stream, limits, origin })
}

function lowerFirst(sentence: string): string {
  return sentence[0]!.toLowerCase() + sentence.slice(1)
}
