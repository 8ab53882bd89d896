import type { IncomingMessage } from 'node:http'
import { basename } from 'node:path/posix'
import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { Busboy } from '@fastify/busboy'
import { contentTypeOf, isDeclaredMedia, JSON_LINES } from '../../files/content-type.ts'
import {
  type Files,
  MAX_BATCH_FILE_BYTES,
  MAX_FILE_BYTES,
  type NewFile,
  type Purpose,
  UPLOAD_PURPOSES,
} from '../../files/files.ts'
import { ApiError, invalidRequest } from '../../lib/errors/errors.ts'
import { collectYoungGarbage } from '../../lib/guarded/memory.ts'
import { HEAD_BYTES, kindOfType, type MediaType, mediaType } from '../../media/media-type.ts'
import type { Draft } from '../../storage/blob-store.ts'

/** Maximum bytes of a form besides its file. */
const FORM_BYTES = 64 * 1024
const MOST_BYTES = MAX_BATCH_FILE_BYTES + FORM_BYTES
/** Matches the beginning of JSON Lines as Latin-1, in which a byte order mark is three characters. */
const JSON_LINES_HEAD = /^(\xef\xbb\xbf)?\s*\{/
const MAX_FILENAME_CHARACTERS = 255
const LIMITS = { fieldNameSize: 100, fieldSize: 1024, fields: 20, parts: 21, headerPairs: 50, headerSize: 16 * 1024 }
/** An upload fails when nothing arrives for this long. */
const SILENCE_MS = 60_000
const CHUNK_BYTES = 256 * 1024
/** Bytes of an upload between collections of its garbage. */
const GARBAGE_BYTES = 4 * 2 ** 20

/** An upload that is on disk but not a file yet. The draft must be kept or discarded. */
export interface ReceivedUpload {
  readonly draft: Draft
  readonly file: NewFile
}

/**
 * Returns the declared length of an upload in bytes: 0 for a chunked upload, which is counted as it arrives.
 * @throws ApiError 411 when the contract requires a length and there is none, 413 when it is too large.
 */
export function declaredLength(request: IncomingMessage, mayBeChunked: boolean): number {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers
  if (length === undefined) {
    // Node clients do not know the length of a stream, and Ruby clients never send one.
    if (mayBeChunked && encoding !== undefined) return 0
    throw invalidRequest('The Content-Length header is required for uploads', null, { status: 411 })
  }
  // The applicable limit is known only when the file begins.
  if (Number(length) > MOST_BYTES) throw tooLarge(MAX_BATCH_FILE_BYTES)
  return Number(length)
}

/** Returns the minimum size of the file in a form of `length` bytes. */
export function leastFileBytes(length: number): number {
  return Math.max(0, length - FORM_BYTES)
}

/**
 * Receives a form with a file and its purpose, in either order. The file is written as it arrives: only a few chunks of
 * it are in memory at a time.
 * @param usual the purpose of a form that has none; null if it must have one.
 * @param shutdown ends it with its reason, which the client gets.
 * @throws ApiError 400 when the form or the file is invalid, 408 when it stops arriving, 413 when the file is too big.
 */
export async function receiveUpload(
  request: IncomingMessage,
  files: Pick<Files, 'draft'>,
  { usual, shutdown }: { readonly usual: Purpose | null; readonly shutdown: AbortSignal },
): Promise<ReceivedUpload> {
  shutdown.throwIfAborted()
  const form = openForm(request)
  const receiving: Promise<Received>[] = []
  const streams: Readable[] = []
  const fields = new Map<string, string>()
  // Errors that the parser emits after the first one are ignored.
  form.on('error', () => {})
  form.on('field', (name, value, _nameTruncated, valueTruncated) => {
    if (!valueTruncated) fields.set(name, value)
  })
  form.on('file', (_name, stream, filename, _encoding, declared) => {
    streams.push(stream)
    stream.on('error', () => {})
    const least = leastFileBytes(Number(request.headers['content-length'] ?? 0))
    const received = receiveFile(stream, { filename, declared, least, purpose: () => fields.get('purpose') }, files)
    // Rethrown below, when `feed` fails or the result is awaited.
    received.catch((error) => form.destroy(error))
    receiving.push(received)
  })
  let failed = false
  request.setTimeout(SILENCE_MS, () => {
    if (failed) request.destroy()
    else form.destroy(invalidRequest('The upload did not arrive in time', null, { status: 408 }))
  })
  const stop = () => form.destroy(shutdown.reason as Error)
  shutdown.addEventListener('abort', stop, { once: true })
  try {
    await feed(request, form)
    request.setTimeout(0)
    if (receiving.length !== 1) throw invalidRequest(`The form must contain one file, got ${receiving.length}`, 'file')
    rejectExpiry(fields)
    const purpose = readPurpose(fields.get('purpose') ?? usual)
    const { draft, media, ...file } = await receiving[0]!
    return { draft, file: { ...file, purpose, contentType: typeFor(purpose, media) } }
  } catch (error) {
    failed = true
    // Read and drop the rest: a client that is disconnected while sending would not see the response.
    request.resume()
    // A form that ends early does not end the stream of its file.
    for (const stream of streams) stream.destroy(error as Error)
    const drafts = await Promise.allSettled(receiving)
    for (const outcome of drafts) if (outcome.status === 'fulfilled') await outcome.value.draft.discard()
    throw formError(error, request)
  } finally {
    shutdown.removeEventListener('abort', stop)
  }
}

function openForm(request: IncomingMessage) {
  const type = request.headers['content-type'] ?? ''
  if (!/^multipart\/form-data\s*;/i.test(type)) {
    throw invalidRequest('An upload must be sent with Content-Type: multipart/form-data', null, { status: 415 })
  }
  try {
    return new Busboy({
      headers: { ...request.headers, 'content-type': type },
      // By default, a part without a file name or a type would not count as a file.
      isPartAFile: (name) => name === 'file',
      limits: LIMITS,
      highWaterMark: CHUNK_BYTES,
      fileHwm: CHUNK_BYTES,
    })
  } catch (cause) {
    throw invalidRequest('The multipart boundary is missing or invalid', null, { cause })
  }
}

/**
 * Pipes the body into the form, until its end or until the form fails. Unlike `pipeline`, it does not destroy the
 * request when the form fails: the response still needs the connection.
 */
async function feed(request: IncomingMessage, form: ReturnType<typeof openForm>): Promise<void> {
  const cut = Promise.withResolvers<never>()
  const onClose = () => {
    if (!request.complete) cut.reject(new Error('The connection was closed during the upload'))
  }
  request.once('close', onClose)
  // The 'close' event reports the same.
  request.on('error', () => {})
  let bytes = 0
  const count = (piece: Buffer) => {
    bytes += piece.length
    if (bytes > MOST_BYTES) form.destroy(tooLarge(MAX_BATCH_FILE_BYTES))
  }
  request.on('data', count)
  request.pipe(form)
  try {
    await Promise.race([finished(form), cut.promise])
  } finally {
    request.unpipe(form)
    request.off('data', count)
    request.off('close', onClose)
  }
}

interface Received extends Pick<NewFile, 'filename' | 'bytes'> {
  readonly draft: Draft
  /** The media type, or the reason why the bytes are not media. */
  readonly media: MediaType | ApiError
}

interface FilePart {
  readonly filename: string | undefined
  /** The content type that the client declares. */
  readonly declared: string
  /** The minimum size of the file in bytes. */
  readonly least: number
  /** The purpose, if it came before the file. */
  purpose(): string | undefined
}

async function receiveFile(
  stream: Readable,
  { filename, declared, least, purpose }: FilePart,
  files: Pick<Files, 'draft'>,
): Promise<Received> {
  const draft = await files.draft()
  try {
    let media: MediaType | ApiError | null = null
    let limit = MAX_BATCH_FILE_BYTES
    const look = (head: Buffer) => {
      media = mediaOf(head, declared)
      const known = purpose()
      const mayBeBatch = known === 'batch' || (known === undefined && JSON_LINES_HEAD.test(head.toString('latin1')))
      if (media instanceof ApiError && mayBeBatch) return
      if (media instanceof ApiError) throw media
      limit = MAX_FILE_BYTES
      if (least > limit) throw tooLarge(limit)
    }
    let head: Buffer | null = Buffer.alloc(0)
    let bytes = 0
    let collected = 0
    for await (const piece of stream as AsyncIterable<Buffer>) {
      bytes += piece.length
      if (bytes > limit) throw tooLarge(limit)
      if (bytes - collected > GARBAGE_BYTES) {
        collectYoungGarbage()
        collected = bytes
      }
      if (head === null) {
        await draft.write(piece)
        continue
      }
      head = Buffer.concat([head, piece])
      if (head.length < HEAD_BYTES) continue
      look(head)
      await draft.write(head)
      head = null
    }
    if (head !== null) {
      if (bytes === 0) throw invalidRequest('The file is empty', 'file')
      look(head)
      await draft.write(head)
    }
    return { draft, filename: cleanName(filename), media: media!, bytes }
  } catch (error) {
    await draft.discard()
    throw error
  }
}

/** @returns the error for bytes that are neither media nor declared as such. @throws ApiError 400 for a wrongly declared type. */
function mediaOf(head: Buffer, declared: string): MediaType | ApiError {
  try {
    return contentTypeOf(head, declared)
  } catch (error) {
    if (error instanceof ApiError && mediaType(head) === null && !isDeclaredMedia(declared)) return error
    throw error
  }
}

/** @throws ApiError 400 for a file that cannot be used for the purpose. */
function typeFor(purpose: Purpose, media: MediaType | ApiError): NewFile['contentType'] {
  if (purpose === 'batch') {
    if (media instanceof ApiError) return JSON_LINES
    throw invalidRequest(`The input of a batch must be JSON Lines, and this file is '${media}'`, 'file')
  }
  if (media instanceof ApiError) throw media
  if (purpose === 'vision' && kindOfType(media) === 'document') {
    throw invalidRequest(`A file of type '${media}' is uploaded with the purpose 'user_data'`, 'purpose')
  }
  return media
}

/** The names, in OpenAI's, Anthropic's and Mistral's API, of the time after which a file is deleted. */
const EXPIRY = /^(expires_after|expires_in_seconds|expiry)\b/

/** Rejects an expiry time: a client that relies on it must learn that files are kept until they are deleted. */
function rejectExpiry(fields: ReadonlyMap<string, string>): void {
  const [name] = [...fields.keys()].flatMap((field) => EXPIRY.exec(field)?.[1] ?? [])
  if (name === undefined) return
  throw invalidRequest(`${name} is not supported: files are kept until they are deleted`, name)
}

function readPurpose(text: string | null): Purpose {
  const purpose = UPLOAD_PURPOSES.find((purpose) => purpose === text)
  if (purpose !== undefined) return purpose
  const expected = UPLOAD_PURPOSES.map((purpose) => `'${purpose}'`).join(' or ')
  throw invalidRequest(`Invalid 'purpose': ${text === null ? 'it is required; ' : ''}expected ${expected}`, 'purpose')
}

/** The last part of a path, without control characters; null if nothing is left. */
function cleanName(filename: string | undefined): string | null {
  const name = basename((filename ?? '').replaceAll('\\', '/'))
    .toWellFormed()
    .replace(/\p{Cc}/gu, '')
    .trim()
  const short = [...name].slice(0, MAX_FILENAME_CHARACTERS).join('')
  return short === '' || short === '.' || short === '..' ? null : short
}

function tooLarge(limit: number): ApiError {
  return invalidRequest(`The file is larger than ${limit / 2 ** 20} MiB`, 'file', { status: 413 })
}

/** Turns errors of the form parser into a 400; other errors are returned unchanged. */
function formError(error: unknown, request: IncomingMessage): unknown {
  if (error instanceof ApiError || !request.complete) return error
  const known = error instanceof Error && /multipart|terminated early|header|part/i.test(error.message)
  return known ? invalidRequest('The form is not valid multipart/form-data', null, { cause: error }) : error
}
