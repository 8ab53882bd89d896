import { availableParallelism } from 'node:os'
import type { RgbImage, Size } from '../pixels.ts'
import { targetSize } from '../resize.ts'
import type { ByteSource } from './byte-source.ts'
import { Container } from './container.ts'
import {
  type FFmpeg,
  type Frame,
  MEDIA_AUDIO,
  MEDIA_VIDEO,
  NO_TIMESTAMP,
  PACKET_CORRUPT,
  PACKET_DISCARD,
  type Packet,
  SIDE_DATA_DISPLAY_MATRIX,
  type Stream,
} from './ffmpeg.ts'
import { InvalidMedia } from './invalid-media.ts'
import { orientationOf, turnUpright } from './orientation.ts'
import type { DecodedVideo, VideoFrame, VideoTask } from './process/protocol.ts'
import { RgbScaler } from './rgb-scaler.ts'
import { decodeSoundtrack } from './soundtrack.ts'
import { type CodedFrame, type Sample, Timeline } from './timeline.ts'

/** One day at 25 frames per second. */
const MAX_FRAMES = 2_200_000
/** Read at startup: once confined, the process cannot read how many cores it may use. */
const THREADS = Math.min(availableParallelism(), 4)
/** 4K. Larger videos take much memory: a codec keeps up to sixteen frames, and each of its threads some more. */
const LARGE_PIXELS = 4096 * 2304
/** Frames per second, more than any video has. */
const EVERY_FRAME = 1e6
const SILENT = { sound: null }

/**
 * Samples frames from a video at equal intervals. It reads all packets twice: first to list the frames, because a
 * header may be wrong about duration, rate and frame count, and then to decode. It skips groups of frames without a
 * sample.
 */
export async function decodeVideo(
  ffmpeg: FFmpeg,
  task: VideoTask<ByteSource>,
  grant: () => Promise<void>,
): Promise<DecodedVideo> {
  const { data, format, limits, wish, sound } = task
  const seen = await withStream(ffmpeg, task, async (container, stream) => {
    const frames = await listFrames(container, stream)
    // An edit list without a length, as for a single frame, leaves out all frames. Players show them nevertheless.
    const showsAll = frames.every(({ isHidden }) => isHidden)
    const timeline = new Timeline(showsAll ? frames.map((frame) => ({ ...frame, isHidden: false })) : frames)
    const { start: origin, firstStart } = container
    return { timeline, unit: stream.timeBase.num / stream.timeBase.den, origin, firstStart, showsAll }
  })
  const { timeline, unit, origin, firstStart, showsAll } = seen
  // Pictures may begin later than the container, whose clock the sound follows too.
  const first = Math.max(0, timeline.start * unit - origin)
  const most = Math.min(limits.maxFrames, task.maxFrames, wish?.frames ?? Number.POSITIVE_INFINITY)
  const rate = wish === undefined ? limits.framesPerSecond : (wish.framesPerSecond ?? EVERY_FRAME)
  const samples = timeline.sample(rate * unit, most, wish !== undefined)
  const { pictures, original } = await withStream(ffmpeg, task, async (container, stream) => {
    if (stream.codecpar.width * stream.codecpar.height > LARGE_PIXELS) await grant()
    return decodeSamples(ffmpeg, { container, stream, samples, limits, showsAll })
  })
  const duration = timeline.duration * unit
  // A segment of a stream: otherwise most of its sound would be silence for the time before it.
  const heardFrom = firstStart - origin > duration ? firstStart : origin
  const frames = samples.map(({ at }, index): VideoFrame => {
    const { image, time } = pictures[index]!
    return { image, seconds: first + at * unit, since: first + (time - timeline.start) * unit }
  })
  return {
    frames,
    original,
    durationSeconds: first + duration,
    ...(sound === null ? SILENT : await decodeSoundtrack(ffmpeg, data, { format, limits: sound, origin: heardFrom })),
  }
}

async function withStream<Result>(
  ffmpeg: FFmpeg,
  { data, format }: VideoTask<ByteSource>,
  use: (container: Container, stream: Stream) => Promise<Result>,
): Promise<Result> {
  await using container = await Container.open(ffmpeg, data, format)
  const [stream] = container.streamsOf(MEDIA_VIDEO)
  if (stream === undefined) {
    const hasSound = container.streamsOf(MEDIA_AUDIO).length > 0
    throw new InvalidMedia(`The file has no video${hasSound ? ', only sound: send it as audio' : ''}`)
  }
  container.select(stream)
  return await use(container, stream)
}

/** @returns the frames, at least one. */
async function listFrames(container: Container, stream: Stream): Promise<CodedFrame[]> {
  const frames: CodedFrame[] = []
  for await (const packet of container.packets(stream)) {
    if ((packet.flags & PACKET_CORRUPT) !== 0) throw new InvalidMedia('The video is damaged or truncated')
    frames.push({
      time: timeOf(packet),
      duration: Number(packet.duration),
      isKey: packet.isKeyframe,
      isHidden: (packet.flags & PACKET_DISCARD) !== 0,
    })
    if (frames.length > MAX_FRAMES) throw new InvalidMedia('The video has too many frames')
  }
  // A truncated file may still have the index of the complete one. An edit list leaves frames of a complete one out.
  if (frames.length < Number(stream.nbFrames) && container.missesBytes)
    throw new InvalidMedia('The video is damaged or truncated')
  if (frames.length === 0) throw new InvalidMedia('The video has no frames')
  return frames
}

function timeOf({ pts, dts }: Packet): number {
  return Number(pts === NO_TIMESTAMP ? dts : pts)
}

interface Sampling {
  readonly container: Container
  readonly stream: Stream
  /** In order of time. */
  readonly samples: readonly Sample[]
  readonly limits: VideoTask['limits']
  /** Whether frames that an edit list leaves out are shown nevertheless. */
  readonly showsAll: boolean
}

/** Decodes up to the last sample, skipping groups of frames that contain none. */
async function decodeSamples(
  ffmpeg: FFmpeg,
  { container, stream, samples, limits, showsAll }: Sampling,
): Promise<{ pictures: readonly { readonly image: RgbImage; readonly time: number }[]; original: Size }> {
  const decoder = container.decoder(stream, THREADS)
  const frame = new ffmpeg.Frame()
  frame.alloc()
  const pictures: { image: RgbImage; time: number }[] = []
  let scaler: FrameScaler | null = null
  const take = () => {
    while (pictures.length < samples.length && decoder.receiveFrameSync(frame) >= 0) {
      const time = Number(frame.bestEffortTimestamp)
      scaler ??= makeScaler(ffmpeg, stream, frame, limits)
      // The next frame replaces a missing one.
      if (samples[pictures.length]!.time <= time) {
        const picture = { image: scaler.convert(frame), time }
        while (pictures.length < samples.length && samples[pictures.length]!.time <= time) pictures.push(picture)
      }
      frame.unref()
    }
  }
  try {
    let place = -1
    let skipping = false
    for await (const packet of container.packets(stream)) {
      place++
      if (samples[pictures.length]!.start > place) {
        skipping = true
        continue
      }
      if (skipping) decoder.flushBuffers()
      skipping = false
      if (showsAll) packet.flags &= ~PACKET_DISCARD
      // Packets that cannot be decoded are skipped, as players do. `take` empties the decoder after each packet.
      decoder.sendPacketSync(packet)
      take()
      if (pictures.length === samples.length) break
    }
    decoder.sendPacketSync(null)
    take()
    const last = pictures.at(-1)
    if (last === undefined) throw new InvalidMedia('The video cannot be decoded')
    while (pictures.length < samples.length) pictures.push(last)
    return { pictures, original: (scaler as unknown as FrameScaler).original }
  } finally {
    ;(scaler as FrameScaler | null)?.close()
    frame.free()
    decoder.freeContext()
  }
}

type FrameScaler = ReturnType<typeof makeScaler>

/**
 * Makes a converter of decoded frames to upright RGB images of one size for the model.
 * @param first the frame that determines the size of all.
 */
function makeScaler(ffmpeg: FFmpeg, stream: Stream, first: Frame, limits: VideoTask['limits']) {
  const { codecpar } = stream
  const orientation = orientationOf(codecpar.getCodedSideData(SIDE_DATA_DISPLAY_MATRIX))
  const turned = ({ width, height }: Size): Size =>
    orientation.transposed ? { width: height, height: width } : { width, height }
  // Pixels need not be square. Players follow the container, whose aspect may be newer than the codec's, or the only
  // one.
  const { num, den } = stream.sampleAspectRatio.num > 0 ? stream.sampleAspectRatio : codecpar.sampleAspectRatio
  const width = num > 0 && den > 0 ? Math.max(1, Math.round((first.width * num) / den)) : first.width
  const original = turned({ width, height: first.height })
  const size = turned(targetSize(original, limits))
  const scaler = new RgbScaler(ffmpeg, size)
  return {
    original,
    convert: (frame: Frame): RgbImage => turnUpright(scaler.convert(frame), orientation),
    close: () => scaler[Symbol.dispose](),
  }
}
