import type { AudioType, VideoType } from '../media-type.ts'
import type { ByteSource } from './byte-source.ts'
import {
  DISCARD_ALL,
  DISPOSITION_ATTACHED_PICTURE,
  END_OF_FILE,
  type FFmpeg,
  MEDIA_VIDEO,
  type Packet,
  SEEK_SIZE,
  type Stream,
  setOptions,
} from './ffmpeg.ts'
import { Refusal } from './refusal.ts'

/**
 * The one reader that each type is given to, chosen by the bytes: none of them opens anything else. FFmpeg's own guess
 * could end in a playlist or a list of files, which name further addresses to read.
 */
const READERS: Readonly<Record<VideoType | AudioType, string>> = {
  'video/mp4': 'mov',
  'video/quicktime': 'mov',
  'video/webm': 'matroska',
  'audio/wav': 'wav',
  'audio/mpeg': 'mp3',
  'audio/flac': 'flac',
}

/** What cameras, browsers and recorders write; a rare old codec is an open door more than a help. */
const CODECS = [
  'h264,hevc,vp8,vp9,libvpx,libvpx-vp9,av1,libdav1d,mpeg4,mjpeg,prores',
  'aac,aac_fixed,mp3,mp3float,opus,libopus,vorbis,flac,alac,ac3,eac3',
  'pcm_u8,pcm_s16le,pcm_s16be,pcm_s24le,pcm_s24be,pcm_s32le,pcm_s32be,pcm_f32le,pcm_f64le,pcm_alaw,pcm_mulaw',
].join(',')

/** Larger frames than 8K are refused before memory is taken for them. */
const MAX_FRAME_PIXELS = 36_000_000
const READ_BYTES = 256 * 1024
const MAX_STREAMS = 64

/** A media file, open for reading packets. */
export class Container {
  readonly #ffmpeg: FFmpeg
  readonly #format: InstanceType<FFmpeg['FormatContext']>
  readonly #io: InstanceType<FFmpeg['IOContext']>
  readonly #source: ByteSource
  #position = 0

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

  /** @throws Refusal when the bytes are no such file. */
  static async open(ffmpeg: FFmpeg, source: ByteSource, type: VideoType | AudioType): Promise<Container> {
    const container = new Container(ffmpeg, source)
    try {
      // No protocol at all: the bytes are here, and nothing in them may make FFmpeg look elsewhere.
      setOptions(ffmpeg, container.#format, { protocol_whitelist: 'none', codec_whitelist: CODECS })
      const opened = await container.#format.openInput('', ffmpeg.InputFormat.findInputFormat(READERS[type]), null)
      if (opened < 0) throw new Refusal('The file is damaged or cut short')
      if ((await container.#format.findStreamInfo(null)) < 0) throw new Refusal('The file is damaged or cut short')
      return container
    } catch (error) {
      await container.close()
      throw error
    }
  }

  /**
   * Chooses the stream that is read from now on: the best of the kind.
   * @returns null when there is none. The picture on the cover of a song is none.
   */
  select(kind: number): Stream | null {
    const streams = this.#format.streams ?? []
    const best = this.#format.findBestStream(kind, -1, -1, false, 0)
    const chosen = streams.find(({ index }) => index === best)
    if (!chosen || (chosen.disposition & DISPOSITION_ATTACHED_PICTURE) !== 0) return null
    for (const stream of streams) if (stream !== chosen) stream.discard = DISCARD_ALL
    return chosen
  }

  /** Packets of the chosen stream in the order of decoding. The packet is valid until the next is asked for. */
  async *packets(stream: Stream): AsyncGenerator<Packet, void, void> {
    const packet = new this.#ffmpeg.Packet()
    packet.alloc()
    try {
      for (;;) {
        const code = await this.#format.readFrame(packet)
        if (code === END_OF_FILE) return
        if (code < 0) throw new Refusal('The file is damaged or cut short')
        if (packet.streamIndex === stream.index) yield packet
        packet.unref()
      }
    } finally {
      packet.free()
    }
  }

  /** @throws Refusal when nothing here decodes the stream. */
  decoder(stream: Stream, threads: number): InstanceType<FFmpeg['CodecContext']> {
    const { codecpar } = stream
    const kind = codecpar.codecType === MEDIA_VIDEO ? 'picture' : 'sound'
    if (codecpar.width * codecpar.height > MAX_FRAME_PIXELS) {
      throw new Refusal(`The video is too large: ${codecpar.width} x ${codecpar.height} pixels`)
    }
    const codec = this.#ffmpeg.Codec.findDecoder(codecpar.codecId)
    if (codec === null) throw new Refusal(`The ${kind} is compressed in a way that is not supported`)
    const context = new this.#ffmpeg.CodecContext()
    context.allocContext3(codec)
    context.parametersToContext(codecpar)
    context.pktTimebase = stream.timeBase
    context.threadCount = threads
    setOptions(this.#ffmpeg, context, { codec_whitelist: CODECS, max_pixels: String(MAX_FRAME_PIXELS) })
    const opened = context.open2Sync(codec, null)
    if (opened < 0) {
      context.freeContext()
      throw new Refusal(`The ${kind} is compressed in a way that is not supported`)
    }
    return context
  }

  async close(): Promise<void> {
    // As the library's own demuxer does it: what reads the bytes is freed last.
    this.#format.pb = null
    await this.#format.closeInput()
    this.#io.freeContext()
  }

  #read(size: number): Uint8Array | null {
    if (this.#position >= this.#source.length) return null
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
