import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { invalidRequest } from '../../lib/errors/errors.ts'
import type { ByteRange } from '../../storage/blob-store.ts'
import { requestedRange } from './content-range.ts'

const OPAQUE = 'application/octet-stream'

/** A file with a reader of its bytes, which never change. */
export interface StoredContent {
  readonly id: string
  readonly filename: string
  readonly contentType: string
  readonly bytes: number
  /** Null if the bytes are missing. */
  read(range: ByteRange | null): Promise<Readable | null>
}

/**
 * Responds with a file, or with the requested part of it; without a body if the client has the file cached.
 * @returns null if its bytes are missing.
 * @throws ApiError 416
 */
export async function sendContent(
  request: FastifyRequest,
  reply: FastifyReply,
  file: StoredContent,
): Promise<Readable | null> {
  const tag = `"${file.id}"`
  reply
    .header('accept-ranges', 'bytes')
    .header('etag', tag)
    .header('cache-control', 'private, no-cache')
    // A browser must not guess another type for the bytes, and must not run scripts in them.
    .header('content-disposition', attachment(file.filename))
    .header('content-security-policy', "default-src 'none'; sandbox")
    .header('x-content-type-options', 'nosniff')
  const had = request.headers['if-none-match']?.split(',').map((one) => one.trim().replace(/^W\//, '')) ?? []
  if (had.includes(tag) || had.includes('*')) {
    reply.code(304)
    return Readable.from([])
  }
  const conditional = request.headers['if-range']
  const header = conditional === undefined || conditional === tag ? request.headers.range : undefined
  const range = requestedRange(header, file.bytes)
  if (range === 'unsatisfiable') {
    reply.header('content-range', `bytes */${file.bytes}`).removeHeader('content-disposition')
    throw invalidRequest(`The range starts beyond the end of the file (${file.bytes} bytes)`, 'Range', { status: 416 })
  }
  const length = range ? range.last - range.first + 1 : file.bytes
  const bytes = request.method === 'HEAD' ? Readable.from([]) : await file.read(range)
  if (bytes === null) return null
  if (range) reply.code(206).header('content-range', `bytes ${range.first}-${range.last}/${file.bytes}`)
  // Clients of Mistral's API accept bytes of no other type.
  const isOpaque = request.headers.accept === OPAQUE
  reply.type(isOpaque ? OPAQUE : file.contentType).header('content-length', length)
  return bytes
}

/** Builds the header with the name in ASCII for every client, and in full for those that know RFC 6266. */
function attachment(filename: string): string {
  const plain = filename.replace(/[^\x20-\x7e]|["\\%]/g, '_')
  const full = encodeURIComponent(filename).replace(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16)}`)
  return `attachment; filename="${plain}"; filename*=UTF-8''${full}`
}
