import { CameraError } from '../camera-session.ts'
import type { ByteQueue } from './byte-queue.ts'

const MAX_HEAD = 16 * 1024
const MAX_HEADERS = 100

/** The head of a message of RTSP or HTTP, or of a part, which begins with its boundary. */
export interface MessageHead {
  /** The first line. */
  readonly start: string
  /** By names in lower case. */
  readonly headers: ReadonlyMap<string, readonly string[]>
}

/**
 * @returns null while the head is incomplete
 * @throws CameraError for one that is too large
 */
export function takeHead(queue: ByteQueue): MessageHead | null {
  const length = queue.headLength()
  if ((length ?? queue.length) > MAX_HEAD) throw new CameraError('protocol', 'A header of the camera exceeds 16 KiB')
  if (length === null) return null
  const lines = queue.take(length).toString('latin1').split(/\r?\n/)
  const start = lines.shift()!
  const headers = new Map<string, string[]>()
  let count = 0
  for (const line of lines) {
    const colon = line.indexOf(':')
    if (colon < 1) continue
    if (++count > MAX_HEADERS) throw new CameraError('protocol', 'The camera sends more than 100 headers')
    const name = line.slice(0, colon).trim().toLowerCase()
    const values = headers.get(name) ?? []
    values.push(line.slice(colon + 1).trim())
    headers.set(name, values)
  }
  return { start, headers }
}

/** The status of a response; null for a request of the camera. */
export function statusOf({ start }: MessageHead): number | null {
  const status = /^(?:RTSP|HTTP)\/\d\.\d +(\d{3})\b/i.exec(start)
  return status && Number(status[1])
}

export function headerOf({ headers }: MessageHead, name: string): string | null {
  return headers.get(name)?.[0] ?? null
}

/** @throws CameraError for a length that is no number or exceeds the limit */
export function contentLengthOf(head: MessageHead, limit: number): number | null {
  const text = headerOf(head, 'content-length')
  if (text === null) return null
  const length = /^\d{1,15}$/.test(text) ? Number(text) : Number.POSITIVE_INFINITY
  if (length > limit) throw new CameraError('protocol', `A body of the camera exceeds ${limit / 1024} KiB`)
  return length
}
