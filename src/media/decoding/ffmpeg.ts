import { createRequire } from 'node:module'
import { FFMPEG_FILE } from './ffmpeg-package.ts'

/**
 * FFmpeg's libraries, as exposed by the native part of node-av. Its classes mirror FFmpeg's structs, and their
 * functions return FFmpeg's codes, which are negative for errors. Only its platform packages are dependencies, each a
 * single file and pinned to the release that these declarations were written for. Its JavaScript package has an install
 * script that downloads a program, and depends on a WebRTC stack.
 *
 * Loaded in decoder processes only.
 */
export interface FFmpeg {
  readonly FormatContext: new () => FormatContext
  readonly IOContext: new () => IOContext
  readonly InputFormat: { findInputFormat(name: string): object | null }
  readonly CodecContext: new () => CodecContext
  readonly Codec: { findDecoder(id: number): object | null }
  readonly Packet: new () => Packet
  readonly Frame: new () => Frame
  readonly Option: { set(target: object, name: string, value: string, flags: number): number }
  readonly SoftwareScaleContext: new () => ScaleContext
  readonly SoftwareResampleContext: new () => ResampleContext
  avGetPixFmtName(format: number): string | null
  readonly Log: { setLevel(level: number): void }
}

export interface Rational {
  readonly num: number
  readonly den: number
}

interface IOContext {
  /**
   * `read` returns null at the end; `write` gets bytes that are valid during the call, and returns their number; `seek` returns
   * the new offset, or the size for `SEEK_SIZE`.
   */
  allocContextWithCallbacks(
    bufferSize: number,
    isWritten: 0 | 1,
    read: ((size: number) => Uint8Array | null) | null,
    write: ((bytes: Uint8Array) => number) | null,
    seek: ((offset: bigint, whence: number) => bigint) | null,
  ): void
  freeContext(): void
}

export interface Stream {
  readonly index: number
  readonly codecpar: CodecParameters
  timeBase: Rational
  readonly nbFrames: bigint
  readonly duration: bigint
  /** By the container; 0 if it gives none. */
  sampleAspectRatio: Rational
  readonly disposition: number
  discard: number
}

interface CodecParameters {
  codecId: number
  codecType: number
  codecTag: number
  width: number
  height: number
  sampleAspectRatio: Rational
  extradata: Buffer | null
  getCodedSideData(type: number): Buffer | null
}

interface FormatContext {
  pb: IOContext | null
  maxStreams: number
  readonly streams: Stream[] | null
  /** The start of the first stream, in microseconds. */
  readonly startTime: bigint
  /** In microseconds; negative if the header gives none. */
  readonly duration: bigint
  allocContext(): void
  // While one of these is pending, the callbacks of its IOContext run on the event loop.
  openInput(url: string, format: object | null, options: null): Promise<number>
  findStreamInfo(options: null): Promise<number>
  readFrame(packet: Packet): Promise<number>
  allocOutputContext2(format: null, name: string, url: null): number
  newStream(codec: null): Stream
  writeHeader(options: null): Promise<number>
  writeFrame(packet: Packet): Promise<number>
  writeTrailer(): Promise<number>
  /** Frees the context of an output. That of an input is closed. */
  freeContext(): void
  findBestStream(type: number, wanted: number, related: number, wantDecoder: false, flags: 0): number
  closeInput(): Promise<void>
}

export interface CodecContext {
  threadCount: number
  pktTimebase: Rational
  allocContext3(codec: object): void
  parametersToContext(parameters: CodecParameters): number
  open2Sync(codec: object, options: null): number
  sendPacketSync(packet: Packet | null): number
  receiveFrameSync(frame: Frame): number
  flushBuffers(): void
  freeContext(): void
}

export interface Packet {
  data: Uint8Array | null
  readonly streamIndex: number
  pts: bigint
  dts: bigint
  duration: bigint
  flags: number
  isKeyframe: boolean
  alloc(): void
  unref(): void
  free(): void
}

export interface Frame {
  width: number
  height: number
  format: number
  nbSamples: number
  sampleRate: number
  readonly bestEffortTimestamp: bigint
  sampleAspectRatio: Rational
  readonly channelLayout: ChannelLayout
  readonly extendedData: Buffer[] | null
  /** The planes of an image; `linesize` has the bytes per line of each. */
  readonly data: Buffer[] | null
  readonly linesize: readonly number[]
  flags: number
  /** The matrix of its colours. */
  colorSpace: number
  colorPrimaries: number
  colorTrc: number
  alloc(): void
  allocBuffer(): number
  /** Another frame with the same pixels; null if memory runs out. */
  clone(): Frame | null
  /** Copies the pixels if others have the frame too. */
  makeWritable(): number
  unref(): void
  free(): void
  /** The image without row padding. */
  toBuffer(): Buffer
}

/** FFmpeg's AVChannelLayout. */
export interface ChannelLayout {
  readonly nbChannels: number
  readonly order: number
  readonly mask: bigint
}

interface ScaleContext {
  allocContext(): void
  /** Converts between the formats and sizes that the frames declare; the context needs no further setup. */
  scaleFrameSync(target: Frame, source: Frame): number
  freeContext(): void
}

interface ResampleContext {
  allocSetOpts2(
    outLayout: ChannelLayout,
    outFormat: number,
    outRate: number,
    inLayout: ChannelLayout,
    inFormat: number,
    inRate: number,
  ): number
  /** Before `init`. @param matrix rows of output channels; each has the shares of all input channels. */
  setMatrix(matrix: number[], stride: number): number
  init(): number
  getOutSamples(inSamples: number): number
  convertSync(out: Buffer[] | null, outCount: number, input: Buffer[] | null, inCount: number): number
  free(): void
}

/** FFmpeg's constants. */
export const MEDIA_VIDEO = 0
export const MEDIA_AUDIO = 1
export const PIXEL_RGB24 = 2
export const SAMPLE_FLOAT = 3
export const DISCARD_ALL = 48
export const PACKET_DISCARD = 4
export const PACKET_CORRUPT = 2
export const FRAME_INTERLACED = 8
export const MATRIX_BT709 = 1
/** For a frame without a matrix, primaries or transfer. */
export const UNNAMED = 2
export const SEEK_SIZE = 0x10000
export const SIDE_DATA_DISPLAY_MATRIX = 5
export const DISPOSITION_ATTACHED_PICTURE = 0x400
export const NO_TIMESTAMP = -(2n ** 63n)
export const END_OF_FILE = -541478725
export const CODEC_MJPEG = 7
export const CODEC_H264 = 27
export const CODEC_H265 = 173
export const CODEC_FLAC = 86_028
const LOG_QUIET = -8

/** @throws Error when the platform's package is not installed. */
export function loadFFmpeg(): FFmpeg {
  const ffmpeg = createRequire(import.meta.url)(FFMPEG_FILE) as FFmpeg
  ffmpeg.Log.setLevel(LOG_QUIET)
  return ffmpeg
}

/** `AV_OPT_SEARCH_CHILDREN`: child objects are searched for an option first. */
export const SEARCH_CHILDREN = 1

/** Sets options one by one: the binding has a double free when a decoder is opened with a dictionary of options. */
export function setOptions(
  ffmpeg: FFmpeg,
  target: object,
  options: Readonly<Record<string, string>>,
  search: 0 | typeof SEARCH_CHILDREN = 0,
): void {
  for (const [name, value] of Object.entries(options)) {
    const code = ffmpeg.Option.set(target, name, value, search)
    if (code < 0) throw new Error(`FFmpeg rejected the option ${name}`)
  }
}
