import { type AccessUnit, CameraError, MAX_UNIT } from '../camera-session.ts'
import type { RtpPacket } from './rtp.ts'

const HEADER = 8
/** The Huffman tables of the JPEG standard's annex K, as segments of a file. RTP leaves them out. */
const HUFFMAN_TABLES = Buffer.from(
  '/8QAHwAAAQUBAQEBAQEAAAAAAAAAAAECAwQFBgcICQoL/8QAtRAAAgEDAwIEAwUFBAQAAAF9AQIDAAQRBRIhMUEGE1FhByJxFDKBkaEII0KxwRVS0fAkM2JyggkKFhcYGRolJicoKSo0NTY3ODk6Q0RFRkdISUpTVFVWV1hZWmNkZWZnaGlqc3R1dnd4eXqDhIWGh4iJipKTlJWWl5iZmqKjpKWmp6ipqrKztLW2t7i5usLDxMXGx8jJytLT1NXW19jZ2uHi4+Tl5ufo6erx8vP09fb3+Pn6/8QAHwEAAwEBAQEBAQEBAQAAAAAAAAECAwQFBgcICQoL/8QAtREAAgECBAQDBAcFBAQAAQJ3AAECAxEEBSExBhJBUQdhcRMiMoEIFEKRobHBCSMzUvAVYnLRChYkNOEl8RcYGRomJygpKjU2Nzg5OkNERUZHSElKU1RVVldYWVpjZGVmZ2hpanN0dXZ3eHl6goOEhYaHiImKkpOUlZaXmJmaoqOkpaanqKmqsrO0tba3uLm6wsPExcbHyMnK0tPU1dbX2Nna4uPk5ebn6Onq8vP09fb3+Pn6',
  'base64',
)
/** Annex K's quantisation tables, in the order of a file: brightness, then colour. */
const QUANTISERS = Buffer.from(
  'EAsMDgwKEA4NDhIREBMYKBoYFhYYMSMlHSg6Mz08OTM4N0BIXE5ARFdFNzhQbVFXX2JnaGc+TXF5cGR4XGVnYxESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2M=',
  'base64',
)
const TABLE = 64

/** Unpacks JPEG from RTP (RFC 2435). The headers of a file are rebuilt from the few bytes of them that RTP carries. */
export class JpegDepacketizer {
  readonly #onUnit: (unit: AccessUnit) => void
  /** Tables of the camera's own, by the number that it gives them. */
  readonly #tables = new Map<number, Buffer>()
  /** Parts of the picture; empty while there is none. */
  #pieces: Buffer[] = []
  /** Bytes of the scan that have arrived. */
  #length = 0
  #hasLost = false

  constructor(onUnit: (unit: AccessUnit) => void) {
    this.#onUnit = onUnit
  }

  push({ payload, isLast, afterGap, mediaTime, cameraTime }: RtpPacket): void {
    const bytes = Buffer.from(payload)
    const offset = bytes.length > HEADER ? bytes.readUIntBE(1, 3) : -1
    let scan = HEADER + (hasRestarts(bytes) ? 4 : 0)
    if (afterGap || (this.#length > 0 && offset !== this.#length)) this.#lose()
    if (offset === 0) scan = this.#begin(bytes, scan)
    else if (this.#length === 0) this.#hasLost = true
    if (this.#pieces.length === 0) return
    this.#pieces.push(bytes.subarray(scan))
    this.#length += bytes.length - scan
    if (this.#length > MAX_UNIT) throw new CameraError('protocol', 'A picture of the camera exceeds 4 MiB')
    if (!isLast) return
    const data = Buffer.concat([...this.#pieces, END])
    const afterLoss = this.#hasLost
    this.#clear()
    this.#hasLost = false
    this.#onUnit({ codec: 'jpeg', data, isKey: true, mediaTime, cameraTime, afterLoss })
  }

  /** @returns where the scan begins */
  #begin(bytes: Buffer, start: number): number {
    const [type, quality, width, height] = [bytes[4]! & 63, bytes[5]!, bytes[6]! * 8, bytes[7]! * 8]
    if (type > 1 || width === 0 || height === 0) {
      throw new CameraError('unsupported_codec', 'The camera sends JPEG of a kind or a size that RTP does not describe')
    }
    let scan = start
    let tables: Buffer | undefined
    if (quality < 128) tables = tablesOf(quality)
    else if (bytes.length >= start + 4) {
      const length = bytes.readUInt16BE(start + 2)
      scan = start + 4 + length
      // Without tables, those sent before apply. Baseline JPEG has none of 16 bits.
      if (length === 2 * TABLE && bytes.length >= scan) this.#tables.set(quality, bytes.subarray(start + 4, scan))
      tables = this.#tables.get(quality)
    }
    if (tables === undefined) {
      this.#lose()
      return scan
    }
    const interval = hasRestarts(bytes) ? segment(0xdd, bytes.subarray(HEADER, HEADER + 2)) : []
    const frame = Buffer.from([8, 0, 0, 0, 0, 3, 1, type === 0 ? 0x21 : 0x22, 0, 2, 0x11, 1, 3, 0x11, 1])
    frame.writeUInt16BE(height, 1)
    frame.writeUInt16BE(width, 3)
    this.#pieces = [
      Buffer.from([0xff, 0xd8]),
      ...interval,
      ...segment(0xdb, Buffer.concat([ZERO, tables.subarray(0, TABLE), ONE, tables.subarray(TABLE)])),
      ...segment(0xc0, frame),
      HUFFMAN_TABLES,
      ...segment(0xda, Buffer.from([3, 1, 0, 2, 0x11, 3, 0x11, 0, 63, 0])),
    ]
    return scan
  }

  #lose(): void {
    this.#clear()
    this.#hasLost = true
  }

  #clear(): void {
    this.#pieces = []
    this.#length = 0
  }
}

const ZERO = Buffer.from([0])
const ONE = Buffer.from([1])
const END = Buffer.from([0xff, 0xd9])

function hasRestarts(payload: Buffer): boolean {
  return payload.length >= HEADER + 4 && payload[4]! >= 64 && payload[4]! < 128
}

function segment(marker: number, body: Buffer): Buffer[] {
  return [Buffer.from([0xff, marker, (body.length + 2) >> 8, (body.length + 2) & 255]), body]
}

/** As libjpeg scales them, by a quality of 1 to 99. */
function tablesOf(quality: number): Buffer {
  const clamped = Math.min(Math.max(quality, 1), 99)
  const factor = clamped < 50 ? Math.floor(5000 / clamped) : 200 - 2 * clamped
  return Buffer.from(QUANTISERS.map((value) => Math.min(Math.max(Math.floor((value * factor + 50) / 100), 1), 255)))
}
