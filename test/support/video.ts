import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { libc } from '../../src/lib/libc.ts'
import type { RgbImage } from '../../src/media/pixels.ts'

/** A small real video, made with the encoders of the library that the decoder processes use. */
export interface VideoSpec {
  /** `avif` is an animated picture. */
  readonly format: 'mp4' | 'webm' | 'mov' | 'avif'
  readonly codec?: 'libx264' | 'libvpx' | 'libvpx-vp9'
  readonly frames: readonly RgbImage[]
  /** Time of each frame from the start, in milliseconds; by default 10 frames per second. */
  readonly times?: readonly number[]
  /** Frames between keyframes. */
  readonly interval?: number
  /** Clockwise rotation for display, in degrees. */
  readonly rotation?: 0 | 90 | 180 | 270
  /** Whether each frame is coded as two fields. */
  readonly interlaced?: boolean
  /** FFmpeg's number of the matrix that the codec names; none by default. The numbers are those of BT.601. */
  readonly matrix?: number
  /** FFmpeg's numbers of what the colours and their brightness stand for; none by default. */
  readonly primaries?: number
  readonly transfer?: number
  /** Width of a pixel by its height, as the container alone says it. */
  readonly pixelAspect?: { readonly num: number; readonly den: number }
  /** Length of an audio track with a tone of 440 Hz, in seconds. */
  readonly audioSeconds?: number
  /** An audio track with these samples, at 48 kHz. */
  readonly soundtrack?: Float32Array
  /** An audio track for each of these encoders; one by default. */
  readonly soundCodecs?: readonly string[]
  /** The time at which the audio begins, in milliseconds. */
  readonly soundFrom?: number
  /** For the frames. */
  readonly bitsPerSecond?: number
  /** Leaves out all frames, so that the video track is empty. */
  readonly empty?: boolean
  /** Puts the index before the data, so that a truncated file still has it. */
  readonly indexFirst?: boolean
}

export interface AudioSpec {
  readonly format: keyof typeof SOUND_CODECS
  readonly samples: Float32Array
  readonly rate: number
  readonly channels?: 1 | 2
  /** The time at which it begins, in seconds. */
  readonly from?: number
  /** For M4A and MP4: the index is before the data, so that a truncated file still has it. */
  readonly indexFirst?: boolean
  /** For MP4: each half second has its own index, as in recordings of browsers. */
  readonly isFragmented?: boolean
}

// biome-ignore lint/suspicious/noExplicitAny: the binding's encoders are used only here, and are not declared.
export type Native = any

const require = createRequire(import.meta.url)
export const native: Native = require(`@seydx/node-av-${process.platform}-${process.arch}/node-av.node`)
// Silences the encoders' log, and that of the one for AVIF, which has its own.
native.Log.setLevel(-8)
process.env.SVT_LOG = '-1'

/** Rate of soundtracks, in samples per second. */
export const SOUNDTRACK_RATE = 48_000

export const RGB24 = 2
export const YUV420P = 0
const GLOBAL_HEADER = 0x400000
/** What is interlaced: transforms and motion. */
const FIELDS = 0x40000 | 0x20000000
const DISPLAY_MATRIX = 5
export const MILLISECONDS = { num: 1, den: 1000 }

export async function makeVideo(video: VideoSpec): Promise<Buffer> {
  return mux(video.format, video.indexFirst ? FIRST : {}, (output) => {
    const tracks = [videoTrack(output, video)]
    const rate = SOUNDTRACK_RATE
    const samples =
      video.soundtrack ??
      (video.audioSeconds && Float32Array.from({ length: video.audioSeconds * rate }, (_, i) => tone(i / rate)))
    if (samples) {
      const codecs = video.soundCodecs ?? [video.format === 'webm' ? 'libopus' : 'aac']
      const from = ((video.soundFrom ?? 0) * rate) / 1000
      for (const codec of codecs) tracks.push(audioTrack(output, { samples, rate, channels: 1, codec, from }))
    }
    return tracks
  })
}

/** `ipod` is M4A; MP4 and WebM have no video here. */
const SOUND_CODECS = {
  wav: 'pcm_s16le',
  w64: 'pcm_s16le',
  mp3: 'libmp3lame',
  flac: 'flac',
  adts: 'aac',
  ipod: 'aac',
  mp4: 'aac',
  ogg: 'libvorbis',
  opus: 'libopus',
  webm: 'libopus',
} as const

export async function makeAudio({
  format,
  samples,
  rate,
  channels = 1,
  from = 0,
  indexFirst = false,
  isFragmented = false,
}: AudioSpec): Promise<Buffer> {
  const codec = SOUND_CODECS[format]
  const options = isFragmented ? FRAGMENTED : indexFirst ? FIRST : {}
  return mux(format, options, (output) => [audioTrack(output, { samples, rate, channels, codec, from: from * rate })])
}

/** Where an MP4 has its index. */
const FIRST = { movflags: '+faststart' }
const FRAGMENTED = { movflags: '+frag_keyframe+empty_moov+default_base_moof', frag_duration: '500000' }

export function tone(seconds: number, hertz = 440): number {
  return 0.5 * Math.sin(2 * Math.PI * hertz * seconds)
}

/** Writes all packets of a track. */
type Track = () => void

async function mux(
  format: string,
  options: Readonly<Record<string, string>>,
  tracks: (output: Native) => Track[],
): Promise<Buffer> {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-video-'))
  const path = join(directory, 'video')
  const output = new native.FormatContext()
  try {
    check(output.allocOutputContext2(null, format, path))
    // Some codecs are experimental in MP4.
    output.strictStdCompliance = -2
    const write = tracks(output)
    check(output.openOutputSync())
    for (const [name, value] of Object.entries(options)) native.Option.set(output, name, value, 1)
    check(output.writeHeaderSync(null))
    for (const track of write) track()
    check(output.writeTrailerSync())
    output.closeOutputSync()
    return await readFile(path)
  } finally {
    endRealTime()
    output.freeContext()
    await rm(directory, { recursive: true })
  }
}

function videoTrack(output: Native, video: VideoSpec): Track {
  const { frames, times = frames.map((_, i) => i * 100), interval = 250, rotation = 0 } = video
  const usual = { mp4: 'libx264', mov: 'libx264', webm: 'libvpx', avif: 'libsvtav1' }
  const codec = native.Codec.findEncoderByName(video.codec ?? usual[video.format])
  const encoder = new native.CodecContext()
  encoder.allocContext3(codec)
  encoder.width = frames[0]!.width
  encoder.height = frames[0]!.height
  encoder.pixelFormat = YUV420P
  encoder.timeBase = MILLISECONDS
  encoder.framerate = { num: 10, den: 1 }
  encoder.gopSize = interval
  encoder.bitRate = BigInt(video.bitsPerSecond ?? 1_500_000)
  encoder.flags = video.interlaced ? GLOBAL_HEADER | FIELDS : GLOBAL_HEADER
  if (video.matrix !== undefined) encoder.colorSpace = video.matrix
  if (video.primaries !== undefined) encoder.colorPrimaries = video.primaries
  if (video.transfer !== undefined) encoder.colorTrc = video.transfer
  encoder.threadCount = 1
  check(encoder.open2Sync(codec, null))
  const stream = output.newStream(null)
  stream.codecpar.fromContext(encoder)
  stream.timeBase = MILLISECONDS
  if (video.pixelAspect) stream.sampleAspectRatio = video.pixelAspect
  if (rotation !== 0) stream.codecpar.addCodedSideData(DISPLAY_MATRIX, displayMatrix(rotation))
  return () => {
    const scaler = new native.SoftwareScaleContext()
    scaler.allocContext()
    for (const [i, image] of (video.empty ? [] : frames).entries()) {
      const yuv = yuvOf(scaler, image)
      yuv.pts = BigInt(times[i]!)
      yuv.duration = BigInt((times[i + 1] ?? times[i]! + 100) - times[i]!)
      encode(output, stream, encoder, yuv)
      yuv.free()
    }
    encode(output, stream, encoder, null)
    scaler.freeContext()
    encoder.freeContext()
  }
}

/**
 * Root's thread gets a real-time priority from the encoder of AVIF, which would be that of all programs that a test starts later:
 * they would take the processors from all others.
 */
function endRealTime(): void {
  if (process.platform !== 'linux') return
  const { library } = libc()
  const [USUAL, priority] = [0, new Int32Array(1)]
  check(library.func('int sched_setscheduler(int, int, const void *)')(0, USUAL, priority))
}

/** What video encoders take. */
export function yuvOf(scaler: Native, { width, height, data }: RgbImage): Native {
  const rgb = frameOf(RGB24, width, height)
  const stride = rgb.linesize[0]
  for (let y = 0; y < height; y++) rgb.data[0].set(data.subarray(y * width * 3, (y + 1) * width * 3), y * stride)
  const yuv = frameOf(YUV420P, width, height)
  check(scaler.scaleFrameSync(yuv, rgb))
  rgb.free()
  return yuv
}

interface AudioTrack {
  readonly samples: Float32Array
  readonly rate: number
  readonly channels: number
  readonly codec: string
  /** Its first sample's number. */
  readonly from?: number
}

function audioTrack(output: Native, { samples, rate, channels, codec: name, from = 0 }: AudioTrack): Track {
  const layout = { nbChannels: channels, order: 1, mask: channels === 1 ? 4n : 3n }
  const codec = native.Codec.findEncoderByName(name)
  const encoder = new native.CodecContext()
  encoder.allocContext3(codec)
  encoder.sampleRate = rate
  encoder.channelLayout = layout
  encoder.sampleFormat = codec.sampleFormats[0]
  encoder.timeBase = { num: 1, den: rate }
  encoder.flags = GLOBAL_HEADER
  // Some encoders are experimental.
  native.Option.set(encoder, 'strict', '-2', 0)
  check(encoder.open2Sync(codec, null))
  const stream = output.newStream(null)
  stream.codecpar.fromContext(encoder)
  stream.timeBase = { num: 1, den: rate }
  return () => {
    const size = encoder.frameSize || 4096
    const converter = new native.SoftwareResampleContext()
    check(converter.allocSetOpts2(layout, encoder.sampleFormat, rate, { nbChannels: 1, order: 1, mask: 4n }, 3, rate))
    check(converter.init())
    for (let at = 0; at < samples.length; at += size) {
      const piece = samples.subarray(at, at + size)
      const frame = new native.Frame()
      frame.alloc()
      frame.format = encoder.sampleFormat
      frame.sampleRate = rate
      frame.channelLayout = layout
      frame.nbSamples = piece.length
      check(frame.allocBuffer())
      const input = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
      check(converter.convertSync(frame.extendedData, piece.length, [input], piece.length))
      frame.pts = BigInt(from + at)
      encode(output, stream, encoder, frame)
      frame.free()
    }
    encode(output, stream, encoder, null)
    converter.free()
  }
}

function encode(output: Native, stream: Native, encoder: Native, frame: Native): void {
  check(encoder.sendFrameSync(frame))
  const packet = new native.Packet()
  packet.alloc()
  while (encoder.receivePacketSync(packet) >= 0) {
    packet.streamIndex = stream.index
    packet.rescaleTs(encoder.timeBase, stream.timeBase)
    check(output.interleavedWriteFrameSync(packet))
  }
  packet.free()
}

export function frameOf(format: number, width: number, height: number): Native {
  const frame = new native.Frame()
  frame.alloc()
  frame.format = format
  frame.width = width
  frame.height = height
  check(frame.allocBuffer())
  return frame
}

/** The display matrix as cameras write it: 16.16 fixed point, with the last column in 2.30. */
function displayMatrix(degrees: number): Buffer {
  const [cos, sin] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)].map(Math.round)
  const matrix = Buffer.alloc(36)
  for (const [at, value] of [cos, sin, 0, -sin!, cos, 0, 0, 0, 1 << 14].entries()) {
    matrix.writeInt32LE(at === 8 ? 1 << 30 : value! * 65_536, at * 4)
  }
  return matrix
}

export function check(code: number | undefined): void {
  if (typeof code === 'number' && code < 0) throw new Error(`FFmpeg could not make the test video: error ${code}`)
}
