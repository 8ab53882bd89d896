import { constants } from 'node:os'
import type { AudioType, VideoType } from '../media-type.ts'
import type { ByteSource } from './byte-source.ts'
import {
  CODEC_FLAC,
  DISCARD_ALL,
  DISPOSITION_ATTACHED_PICTURE,
  END_OF_FILE,
  type FFmpeg,
  MEDIA_VIDEO,
  NO_TIMESTAMP,
  type Packet,
  SEEK_SIZE,
  type Stream,
  setOptions,
} from './ffmpeg.ts'
import { InvalidMedia, NoThread } from './invalid-media.ts'

/** MPEG-TS comes from cameras only. */
type ContainerType = VideoType | AudioType | 'video/mp2t'

/**
 * The demuxer for each type. The type comes from the bytes, and none of these demuxers opens other resources. FFmpeg's
 * own detection could choose a playlist or a list of files, which name further URLs to read.
 */
const DEMUXERS: Readonly<Record<ContainerType, string>> = {
  'video/mp2t': 'mpegts',
  'video/mp4': 'mov',
  'video/quicktime': 'mov',
  'video/webm': 'matroska',
  'audio/wav': 'wav',
  'audio/mpeg': 'mp3',
  'audio/flac': 'flac',
  'audio/mp4': 'mov',
  'audio/ogg': 'ogg',
  'audio/webm': 'matroska',
  'audio/aac': 'aac',
  'audio/x-w64': 'w64',
}

/** The codecs that cameras, browsers and recorders write. Rare old codecs are more of a risk than a help. */
const CODECS = [
  'h264,hevc,vp8,vp9,libvpx,libvpx-vp9,av1,libdav1d,mpeg4,mjpeg,prores',
  'aac,aac_fixed,mp3,mp3float,opus,libopus,vorbis,flac,alac,ac3,eac3',
  'pcm_u8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_f32le,pcm_f64le,pcm_alaw,pcm_mulaw',
].join(',')

/** Frames larger than 8K are rejected before memory is allocated for them. */
const MAX_FRAME_PIXELS = 36_000_000
const READ_BYTES = 256 * 1024
const MAX_STREAMS = 64

/** A media file that is open for reading packets. */
export class Container implements AsyncDisposable {
  readonly #ffmpeg: FFmpeg
  readonly #format: InstanceType<FFmpeg['FormatContext']>
  readonly #io: InstanceType<FFmpeg['IOContext']>
  readonly #source: ByteSource
  #position = 0
  #missesBytes = false
  #declared: readonly (number | null)[] = []

  private constructor(ffmpeg: FFmpeg, source: ByteSource) {
    this.#ffmpeg = ffmpeg
    this.#source = source
    this.#io = new ffmpeg.IOContext()
    this.#io.allocContextWithCallbacks(
      READ_BYTES,
      0,
      (size) => this.#read(size),
      null,
      (offset, whence) => this.#seek(Number(offset), whence),
    )
    this.#format = new ffmpeg.FormatContext()
    this.#format.allocContext()
    this.#format.pb = this.#io
    this.#format.maxStreams = MAX_STREAMS
  }

  /**
   * @param isProbed whether frames are decoded to learn what the container does not say.
   * @throws InvalidMedia when the bytes are not a valid file of this type.
   */
  static async open(ffmpeg: FFmpeg, source: ByteSource, type: ContainerType, isProbed = true): Promise<Container> {
    const container = new Container(ffmpeg, source)
    try {
      // No protocols: the bytes are here, and nothing in them may make FFmpeg open another resource.
      setOptions(ffmpeg, container.#format, { protocol_whitelist: 'none', codec_whitelist: CODECS })
      const opened = await container.#format.openInput('', ffmpeg.InputFormat.findInputFormat(DEMUXERS[type]), null)
      if (opened < 0) throw new InvalidMedia('The file is damaged or truncated')
      // The header of a complete file may be read up to its end.
      container.#missesBytes = false
      container.#declared = declaredBy(container.#format)
      const found = isProbed ? await container.#format.findStreamInfo(null) : 0
      if (found < 0) throw new InvalidMedia('The file is damaged or truncated')
      return container
    } catch (error) {
      await container[Symbol.asyncDispose]()
      throw error
    }
  }

  /**
   * Where the container's own time begins, in seconds: at 0, or where its first stream does if that is earlier. A stream
   * that begins later is shown or heard later.
   */
  get start(): number {
    return Math.min(0, this.firstStart)
  }

  /** Where the first stream begins, in seconds. */
  get firstStart(): number {
    const { startTime } = this.#format
    return startTime === NO_TIMESTAMP ? 0 : Number(startTime) / 1e6
  }

  /**
   * The streams of a kind, the best one first.
   * @returns none when the best one is cover art, which does not count as video.
   */
  streamsOf(kind: number): Stream[] {
    const streams = this.#format.streams ?? []
    const best = this.#format.findBestStream(kind, -1, -1, false, 0)
    const chosen = streams.find(({ index }) => index === best)
    if (!chosen || (chosen.disposition & DISPOSITION_ATTACHED_PICTURE) !== 0) return []
    return [chosen, ...streams.filter((stream) => stream !== chosen && stream.codecpar.codecType === kind)]
  }

  /**
   * Whether FFmpeg has looked for packets beyond the last byte, which it does in an MP4 only if the file is truncated.
   */
  get missesBytes(): boolean {
    return this.#missesBytes
  }

  /** Length of a stream by its header, in seconds; null if the header gives none. FFmpeg guesses a length later. */
  declaredSeconds({ index }: Stream): number | null {
    return this.#declared[index] ?? null
  }

  /** Packets of all other streams are discarded. */
  select(chosen: Stream): void {
    for (const stream of this.#format.streams ?? []) if (stream.index !== chosen.index) stream.discard = DISCARD_ALL
  }

  /** Yields the packets of the selected stream in decoding order. A packet is valid until the next one is read. */
  async *packets(stream: Stream): AsyncGenerator<Packet, void, void> {
    const packet = new this.#ffmpeg.Packet()
    packet.alloc()
    try {
      for (;;) {
        const code = await this.#format.readFrame(packet)
        if (code === END_OF_FILE) return
        if (code < 0) throw new InvalidMedia('The file is damaged or truncated')
        if (packet.streamIndex === stream.index) yield packet
        packet.unref()
      }
    } finally {
      packet.free()
    }
  }

  /** Whether an available codec decodes the stream. */
  decodes(stream: Stream): boolean {
    try {
      this.decoder(stream, 1).freeContext()
      return true
    } catch {
      return false
    }
  }

  /** @throws InvalidMedia when no available codec decodes the stream. */
  decoder(stream: Stream, threads: number): InstanceType<FFmpeg['CodecContext']> {
    const { codecpar } = stream
    const kind = codecpar.codecType === MEDIA_VIDEO ? 'video' : 'audio'
    if (codecpar.width * codecpar.height > MAX_FRAME_PIXELS) {
      throw new InvalidMedia(`The video is too large: ${codecpar.width} x ${codecpar.height} pixels`)
    }
    const codec = this.#ffmpeg.Codec.findDecoder(codecpar.codecId)
    if (codec === null) throw new InvalidMedia(`The ${kind} codec is not supported`)
    const context = new this.#ffmpeg.CodecContext()
    context.allocContext3(codec)
    context.parametersToContext(codecpar)
    context.pktTimebase = stream.timeBase
    context.threadCount = threads
    setOptions(this.#ffmpeg, context, { codec_whitelist: CODECS, max_pixels: String(MAX_FRAME_PIXELS) })
    // Damaged frames would be decoded to noise: they are skipped, like frames that cannot be decoded.
    if (codecpar.codecId === CODEC_FLAC) setOptions(this.#ffmpeg, context, { err_detect: 'crccheck+explode' })
    const opened = context.open2Sync(codec, null)
    if (opened < 0) {
      context.freeContext()
      if (opened === -constants.errno.EAGAIN) throw new NoThread(`No thread for the ${kind} codec`)
      throw new InvalidMedia(`The ${kind} codec is not supported`)
    }
    return context
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The same order as in the library's own demuxer: the I/O context is freed last.
    this.#format.pb = null
    await this.#format.closeInput()
    this.#io.freeContext()
  }

  #read(size: number): Uint8Array | null {
    if (this.#position >= this.#source.length) {
      this.#missesBytes = true
      return null
    }
    const piece = this.#source.read(this.#position, size)
    this.#position += piece.length
    return piece.length === 0 ? null : piece
  }

  #seek(offset: number, whence: number): bigint {
    const { length } = this.#source
    if (whence & SEEK_SIZE) return BigInt(length)
    const from = [0, this.#position, length][whence & 3] ?? 0
    const target = from + offset
    if (target < 0) return -1n
    this.#position = target
    return BigInt(target)
  }
}

/** The length of each stream by the header. For a single stream, that of the file will do. */
function declaredBy({ streams, duration }: InstanceType<FFmpeg['FormatContext']>): (number | null)[] {
  const whole = streams?.length === 1 && duration > 0n ? Number(duration) / 1e6 : null
  return (streams ?? []).map(({ duration, timeBase }) =>
    duration === NO_TIMESTAMP ? whole : (Number(duration) * timeBase.num) / timeBase.den,
  )
}
