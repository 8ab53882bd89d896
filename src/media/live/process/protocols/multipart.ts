import { type AccessUnit, CameraError, dateOf, MAX_UNIT } from '../camera-session.ts'
import { ByteQueue } from './byte-queue.ts'
import { contentLengthOf, headerOf, type MessageHead, takeHead } from './message-head.ts'

const DASH = 0x2d
const NEWLINE = 10

/**
 * Reads pictures from `multipart/x-mixed-replace`. Cameras disagree on the dashes before a boundary, and on whether
 * parts have a length. Here, a boundary is its text after dashes, at the start of a line or directly after a JPEG.
 */
export class MultipartReader {
  readonly #boundary: Buffer
  readonly #onUnit: (unit: AccessUnit) => void
  readonly #queue = new ByteQueue()
  #part: MessageHead | null = null
  /** Length of the part, if it says so. */
  #length: number | null = null
  /** Whether a boundary is next. */
  #isAtHead = false
  /** Where to continue looking for a boundary. */
  #searched = 0
  #hasLost = false

  constructor(boundary: string, onUnit: (unit: AccessUnit) => void) {
    const text = boundary.replace(/^-+/, '')
    this.#boundary = Buffer.from(text === '' ? '--' : text, 'latin1')
    this.#onUnit = onUnit
  }

  push(bytes: Uint8Array): void {
    this.#queue.push(bytes)
    while (this.#step());
  }

  #step(): boolean {
    const queue = this.#queue
    if (this.#isAtHead) {
      const head = takeHead(queue)
      if (head === null) return false
      this.#isAtHead = false
      this.#part = head
      this.#length = contentLengthOf(head, MAX_UNIT)
      return true
    }
    if (this.#part !== null && this.#length !== null) {
      if (queue.length < this.#length) return false
      this.#emit(queue.take(this.#length))
      return true
    }
    const next = this.#findBoundary()
    if (next === null) return false
    const body = queue.take(next)
    this.#searched = 0
    this.#isAtHead = true
    if (this.#part !== null) this.#emit(body)
    return true
  }

  #findBoundary(): number | null {
    const bytes = this.#queue.peek(this.#queue.length)
    for (;;) {
      const at = bytes.indexOf(this.#boundary, this.#searched)
      if (at < 0) break
      let start = at
      while (start > 0 && at - start < 8 && bytes[start - 1] === DASH) start--
      if (start === 0 || bytes[start - 1] === NEWLINE || endsJpeg(bytes, start)) return at
      this.#searched = at + 1
    }
    if (bytes.length > MAX_UNIT) throw new CameraError('protocol', 'A picture of the camera exceeds 4 MiB')
    this.#searched = Math.max(this.#searched, bytes.length - this.#boundary.length + 1)
    return null
  }

  #emit(body: Buffer): void {
    const part = this.#part!
    this.#part = null
    if (!isJpeg(body)) {
      this.#hasLost = true
      return
    }
    const afterLoss = this.#hasLost
    this.#hasLost = false
    const data = Buffer.from(body)
    this.#onUnit({ codec: 'jpeg', data, isKey: true, mediaTime: null, cameraTime: timeOf(part), afterLoss })
  }
}

export function isJpeg(bytes: Uint8Array): boolean {
  return bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff
}

function endsJpeg(bytes: Uint8Array, end: number): boolean {
  return bytes[end - 2] === 0xff && bytes[end - 1] === 0xd9
}

/** `X-Timestamp` of mjpg-streamer counts seconds. */
function timeOf(part: MessageHead): Date | null {
  const seconds = headerOf(part, 'x-timestamp')
  return dateOf(seconds === null ? (headerOf(part, 'date') ?? '') : Number(seconds) * 1000)
}
