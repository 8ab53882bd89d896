import type { RgbImage } from '../../src/media/pixels.ts'
import { check, frameOf, MILLISECONDS, type Native, native, RGB24, YUV420P, yuvOf } from './video.ts'

/** A video as a camera sends it: access units in Annex B, with start codes of four bytes. Keys begin with their parameter sets. */
export interface CameraVideo {
  readonly codec: 'h264' | 'h265'
  readonly units: readonly Buffer[]
}

const ENCODERS = { h264: 'libx264', h265: 'libx265' }
const DECODERS = { h264: 27, h265: 173 }

export interface CameraVideoSpec {
  readonly codec: CameraVideo['codec']
  readonly frames: readonly RgbImage[]
  /** Frames between keys. */
  readonly interval?: number
  readonly options?: Readonly<Record<string, string>>
}

/** Encodes without pictures that refer to later ones, as cameras do. */
export function encodeCameraVideo({ codec, frames, interval = 5, options = {} }: CameraVideoSpec): CameraVideo {
  const encoder = new native.CodecContext()
  const found = native.Codec.findEncoderByName(ENCODERS[codec])
  encoder.allocContext3(found)
  const { width, height } = frames[0]!
  Object.assign(encoder, {
    width,
    height,
    pixelFormat: YUV420P,
    timeBase: MILLISECONDS,
    gopSize: interval,
    threadCount: 1,
  })
  encoder.framerate = { num: 10, den: 1 }
  const quiet = codec === 'h265' ? { 'x265-params': 'log-level=none:repeat-headers=1:pools=none:frame-threads=1' } : {}
  for (const [name, value] of Object.entries({ preset: 'ultrafast', tune: 'zerolatency', ...quiet, ...options })) {
    check(native.Option.set(encoder, name, value, 1))
  }
  check(encoder.open2Sync(found, null))
  const scaler = new native.SoftwareScaleContext()
  scaler.allocContext()
  const units: Buffer[] = []
  const drain = () => {
    const packet = new native.Packet()
    packet.alloc()
    for (; encoder.receivePacketSync(packet) >= 0; packet.unref()) units.push(joinNals(splitNals(packet.data)))
    packet.free()
  }
  for (const [i, image] of frames.entries()) {
    const yuv = yuvOf(scaler, image)
    yuv.pts = BigInt(i * 100)
    check(encoder.sendFrameSync(yuv))
    yuv.free()
    drain()
  }
  check(encoder.sendFrameSync(null))
  drain()
  scaler.freeContext()
  encoder.freeContext()
  return { codec, units }
}

/** Decodes access units. What cannot be decoded is left out, as by players. */
export function decodeCameraVideo(codec: CameraVideo['codec'], units: readonly Uint8Array[]): RgbImage[] {
  const decoder = new native.CodecContext()
  const found = native.Codec.findDecoder(DECODERS[codec])
  decoder.allocContext3(found)
  decoder.threadCount = 1
  check(decoder.open2Sync(found, null))
  const scaler = new native.SoftwareScaleContext()
  scaler.allocContext()
  const frame: Native = new native.Frame()
  frame.alloc()
  const images: RgbImage[] = []
  for (const data of [...units, null]) {
    const packet = new native.Packet()
    packet.alloc()
    if (data !== null) packet.data = Buffer.from(data)
    decoder.sendPacketSync(data === null ? null : packet)
    for (; decoder.receiveFrameSync(frame) >= 0; frame.unref()) {
      const rgb = frameOf(RGB24, frame.width, frame.height)
      check(scaler.scaleFrameSync(rgb, frame))
      images.push({ width: rgb.width, height: rgb.height, data: rgb.toBuffer() })
      rgb.free()
    }
    packet.free()
  }
  frame.free()
  scaler.freeContext()
  decoder.freeContext()
  return images
}

/** One colour all over. */
export function plainImage(width: number, height: number, colour: readonly [number, number, number]): RgbImage {
  return { width, height, data: new Uint8Array(Buffer.alloc(width * height * 3, Buffer.from(colour))) }
}

export function joinNals(nals: readonly Buffer[]): Buffer {
  return Buffer.concat(nals.flatMap((nal) => [Buffer.from([0, 0, 0, 1]), nal]))
}

/** NAL units, without start codes. */
export function splitNals(unit: Uint8Array): Buffer[] {
  const bytes = Buffer.from(unit)
  const nals: Buffer[] = []
  const code = Buffer.from([0, 0, 1])
  for (let at = bytes.indexOf(code); at >= 0; ) {
    const next = bytes.indexOf(code, at + 3)
    let end = next < 0 ? bytes.length : next
    while (bytes[end - 1] === 0) end--
    nals.push(bytes.subarray(at + 3, end))
    at = next
  }
  return nals
}

/**
 * Puts the NAL units of an access unit into payloads of RTP (RFC 6184 and 7798).
 * @param size of a payload at most
 * @param aggregates puts small units that follow one another into one payload
 */
export function packetize(
  codec: CameraVideo['codec'],
  nals: readonly Buffer[],
  size = 1400,
  aggregates = false,
): Buffer[] {
  const is264 = codec === 'h264'
  const headerLength = is264 ? 1 : 2
  const payloads: Buffer[] = []
  let small: Buffer[] = []
  const flush = () => {
    const sized = small.flatMap((nal) => [Buffer.from([nal.length >> 8, nal.length & 255]), nal])
    const header = is264 ? [((small[0]?.[0] ?? 0) & 0x60) | 24] : [48 << 1, 1]
    if (small.length > 1) payloads.push(Buffer.concat([Buffer.from(header), ...sized]))
    else payloads.push(...small)
    small = []
  }
  for (const nal of nals) {
    const sum = small.reduce((bytes, { length }) => bytes + length + 2, headerLength)
    if (small.length > 0 && (!aggregates || sum + nal.length + 2 > size)) flush()
    if (nal.length <= size) {
      small.push(nal)
      continue
    }
    const body = nal.subarray(headerLength)
    const type = is264 ? nal[0]! & 31 : (nal[0]! >> 1) & 63
    const header = is264 ? [(nal[0]! & 0xe0) | 28] : [(nal[0]! & 0x81) | (49 << 1), nal[1]!]
    const piece = size - headerLength - 1
    for (let at = 0; at < body.length; at += piece) {
      const flags = (at === 0 ? 0x80 : 0) | (at + piece >= body.length ? 0x40 : 0)
      payloads.push(Buffer.concat([Buffer.from([...header, flags | type]), body.subarray(at, at + piece)]))
    }
  }
  flush()
  return payloads
}
