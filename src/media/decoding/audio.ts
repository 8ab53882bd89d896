import type { AudioLimits } from '../../models/card.ts'
import { SAMPLE_RATE } from '../audio-tokens.ts'
import { type AudioType, mediaType } from '../media-type.ts'
import type { ByteSource } from './byte-source.ts'
import { Container } from './container.ts'
import { type FFmpeg, MEDIA_AUDIO, NO_TIMESTAMP, PACKET_CORRUPT, type Stream } from './ffmpeg.ts'
import { InvalidMedia } from './invalid-media.ts'
import type { AudioTask, DecodedAudio } from './process/protocol.ts'
import { Track } from './track.ts'

export async function decodeAudio(
  ffmpeg: FFmpeg,
  { data, format: given, limits }: AudioTask<ByteSource>,
): Promise<DecodedAudio> {
  const format = behindTag(data, given)
  await using container = await Container.open(ffmpeg, data, format)
  const streams = container.streamsOf(MEDIA_AUDIO)
  const stream = streams.find((one) => container.decodes(one)) ?? streams[0]
  if (stream === undefined) throw new InvalidMedia('The file has no audio')
  const { audio, problem, damaged, trailing } = await decodeStream(ffmpeg, { container, stream, limits, origin: null })
  if (problem !== null) throw problem
  if (audio === null) throw new InvalidMedia(damaged > 0 ? UNDECODABLE : 'The file has no audio')
  const heard = audio.samples.length / SAMPLE_RATE
  const declaredSeconds = container.declaredSeconds(stream)
  // FFmpeg says when WebM and Ogg end, not how long they are. Parts of a broadcast begin late.
  const begin = format === 'audio/webm' || format === 'audio/ogg' ? Math.max(0, container.firstStart) : 0
  const isShort =
    declaredSeconds === null
      ? damaged > (format === 'audio/mpeg' ? trailing : 0)
      : heard < declaredSeconds - begin - ROUNDING_SECONDS
  // A fragmented MP4 declares only the fragments that are there.
  const misses = format === 'audio/mp4' ? damaged > 0 : format === 'audio/ogg' && missesPages(data)
  const isIncomplete = isWave(format) ? damaged > 0 && data.length < declaredBytes(data, format) : isShort || misses
  return isIncomplete ? { ...audio, notes: [INCOMPLETE] } : audio
}

export const UNDECODABLE = 'The audio cannot be decoded'
const INCOMPLETE = 'The audio is damaged or truncated; a part of it is analysed'
/** Encoders count up to a frame too much. */
const ROUNDING_SECONDS = 0.1
/** Programs that write to a pipe set the length to about 2 or 4 GiB, or 0. Recordings that are accepted are shorter. */
const OPEN_ENDED = 0x7fff_0000

const TAG_HEAD = 10
const TAG_HAS_FOOT = 0x10

/** FLAC and AAC may follow an ID3 tag, whose pictures make it longer than the head that the type is detected from. */
function behindTag(data: ByteSource, format: AudioType): AudioType {
  const head = Buffer.from(data.read(0, TAG_HEAD))
  if (head.length < TAG_HEAD || head.toString('latin1', 0, 3) !== 'ID3') return format
  // Each of its bytes holds seven bits.
  const size = head.subarray(6).reduce((sum, byte) => sum * 128 + (byte & 127), 0)
  const foot = (head[5]! & TAG_HAS_FOOT) === 0 ? 0 : TAG_HEAD
  const type = mediaType(data.read(TAG_HEAD + size + foot, TAG_HEAD))
  return type === 'audio/flac' || type === 'audio/aac' ? type : format
}

function isWave(format: AudioType): boolean {
  return format === 'audio/wav' || format === 'audio/x-w64'
}

/** Length of a WAVE file by its header; 0 if that leaves it open. FFmpeg ends the stream where the file ends. */
function declaredBytes(data: ByteSource, format: AudioType): number {
  const head = Buffer.from(data.read(0, 32))
  const isLarge = head.toString('latin1', 0, 4) !== 'RIFF'
  const length =
    format === 'audio/x-w64'
      ? Number(head.readBigUInt64LE(16))
      : 8 + (isLarge ? Number(head.readBigUInt64LE(20)) : head.readUInt32LE(4))
  return length < OPEN_ENDED ? length : 0
}

const PAGE_HEAD = 27
const MOST_SEGMENTS = 255
const MOST_STREAMS = 64
const PAGE_IS_LAST = 4

/**
 * Whether an Ogg file (RFC 3533) misses a page, or has a gap between two: FFmpeg goes on with the next page that it
 * finds. After the last page of a stream, there is only a tag, or nothing.
 */
function missesPages(data: ByteSource): boolean {
  const next = new Map<number, number>()
  let isOver = false
  for (let at = 0; at < data.length; ) {
    const head = Buffer.from(data.read(at, PAGE_HEAD + MOST_SEGMENTS))
    if (head.length < PAGE_HEAD || head.toString('latin1', 0, 4) !== 'OggS') return !isOver
    const [stream, page, segments] = [head.readUInt32LE(14), head.readUInt32LE(18), head[26]!]
    if (page !== (next.get(stream) ?? page) || next.size > MOST_STREAMS) return true
    isOver = (head[5]! & PAGE_IS_LAST) !== 0
    if (isOver) next.delete(stream)
    else next.set(stream, page + 1)
    at += head.subarray(PAGE_HEAD, PAGE_HEAD + segments).reduce((sum, size) => sum + size, PAGE_HEAD + segments)
    if (at > data.length) return true
  }
  return false
}

export interface StreamDecoding {
  readonly container: Container
  readonly stream: Stream
  readonly limits: AudioLimits
  /** The container's time, in seconds, that the samples begin at. Null: they are joined, and their times are ignored. */
  readonly origin: number | null
}

export interface DecodedStream {
  /** Null when the stream is empty. */
  readonly audio: DecodedAudio | null
  /** Why the rest cannot be decoded. */
  readonly problem: InvalidMedia | null
  /** Number of packets that are cut off, or cannot be decoded and are skipped, as by players. */
  readonly damaged: number
  /** How many of them come after all audio and are not cut off: in an MP3, tags and zero bytes at its end. */
  readonly trailing: number
}

/** @throws InvalidMedia as soon as the audio is known to be longer than the model takes. */
export async function decodeStream(
  ffmpeg: FFmpeg,
  { container, stream, limits, origin }: StreamDecoding,
): Promise<DecodedStream> {
  container.select(stream)
  const decoder = container.decoder(stream, 1)
  const frame = new ffmpeg.Frame()
  frame.alloc()
  const track = new Track(ffmpeg, limits)
  const unit = stream.timeBase.num / stream.timeBase.den
  let problem: InvalidMedia | null = null
  let [damaged, trailing] = [0, 0]
  const take = () => {
    while (decoder.receiveFrameSync(frame) >= 0) {
      trailing = 0
      const time = frame.bestEffortTimestamp
      track.add(frame, origin === null || time === NO_TIMESTAMP ? null : Number(time) * unit - origin)
      frame.unref()
    }
  }
  try {
    try {
      for await (const packet of container.packets(stream)) {
        const isCut = (packet.flags & PACKET_CORRUPT) !== 0
        if (decoder.sendPacketSync(packet) < 0 || isCut) {
          damaged++
          if (!isCut) trailing++
        }
        take()
      }
      decoder.sendPacketSync(null)
      take()
    } catch (error) {
      if (!(error instanceof InvalidMedia) || error.code !== null) throw error
      problem = error
    }
    return { audio: track.finish(), problem, damaged, trailing }
  } finally {
    track.close()
    frame.free()
    decoder.freeContext()
  }
}
