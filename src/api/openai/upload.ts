import type { IncomingMessage } from 'node:http'
import { basename } from 'node:path/posix'
import type { Readable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { setFlagsFromString } from 'node:v8'
import { Busboy } from '@fastify/busboy'
import { contentTypeOf, type Files, MAX_FILE_BYTES, type NewFile, PURPOSES, type Purpose } from '../../files/index.ts'
import { ApiError, invalidRequest } from '../../lib/errors.ts'
import { collectYoungGarbage } from '../../lib/memory.ts'
import { HEAD_BYTES, type MediaType } from '../../media/index.ts'
import type { Draft } from '../../storage/index.ts'

/** What a form takes beside its file. */
const FORM_BYTES = 64 * 1024
const MAX_FILENAME_CHARACTERS = 255
const LIMITS = { fieldNameSize: 100, fieldSize: 1024, fields: 20, parts: 21, headerPairs: 50, headerSize: 16 * 1024 }
/** A client that sends nothing for this long is given up. */
const SILENCE_MS = 60_000
const CHUNK_BYTES = 256 * 1024
/** Of an upload, after which its garbage is collected. */
const GARBAGE_BYTES = 4 * 2 ** 20

// How far the heap may grow, in percent of what lives in it, before all of it is collected. By itself V8 soon allows a tenth,
// and counts the bytes of pieces that are dead already: an upload then met a full collection every 30 MB.
setFlagsFromString('--heap-growing-percent=200')

/** An upload that is on the disk, but no file yet. The draft must be kept or discarded. */
export interface ReceivedUpload {
  readonly draft: Draft
  readonly file: NewFile
}

/** The length that a request must declare. @throws ApiError 411 or 413. */
export function declaredLength(request: IncomingMessage): number {
  const length = request.headers['content-length']
  if (length === undefined) {
    throw invalidRequest('The Content-Length header is required for uploads', null, { status: 411 })
  }
  if (Number(length) > MAX_FILE_BYTES + FORM_BYTES) throw tooLarge()
  return Number(length)
}

/** The least that the file of a form of `length` bytes has. */
export function leastFileBytes(length: number): number {
  return Math.max(0, length - FORM_BYTES)
}

/**
 * Receives a form with a file and its purpose, in either order, and writes the file as it comes: at no time is more than a
 * few chunks of it in memory.
 * @throws ApiError 400 for what is wrong with the form or the file, 413 for a file that is too large.
 */
export async function receiveUpload(request: IncomingMessage, files: Pick<Files, 'draft'>): Promise<ReceivedUpload> {
  const form = openForm(request)
  const receiving: Promise<Received>[] = []
  const streams: Readable[] = []
  const fields = new Map<string, string>()
  // What the parser says after the first error is heard here, and of no interest.
  form.on('error', () => {})
  form.on('field', (name, value, _nameTruncated, valueTruncated) => {
    if (!valueTruncated) fields.set(name, value)
  })
  form.on('file', (_name, stream, filename, _encoding, declared) => {
    streams.push(stream)
    stream.on('error', () => {})
    const received = receiveFile(stream, { filename, declared }, files)
    // Heard below, when the form is at its end or broken.
    received.catch((error) => form.destroy(error))
    receiving.push(received)
  })
  let refused = false
  request.setTimeout(SILENCE_MS, () => {
    if (refused) request.destroy()
    else form.destroy(invalidRequest('The upload did not arrive in time', null, { status: 408 }))
  })
  try {
    await feed(request, form)
    request.setTimeout(0)
    if (receiving.length !== 1) throw invalidRequest(`The form must have one file, not ${receiving.length}`, 'file')
    refuseExpiry(fields)
    const purpose = readPurpose(fields.get('purpose'))
    const { draft, ...file } = await receiving[0]!
    return { draft, file: { ...file, purpose } }
  } catch (error) {
    refused = true
    // What is still to come is read and dropped: a client that is cut off while it sends does not get to see the answer.
    request.resume()
    // A form that breaks off does not end the stream of its file.
    for (const stream of streams) stream.destroy(error as Error)
    const drafts = await Promise.allSettled(receiving)
    for (const outcome of drafts) if (outcome.status === 'fulfilled') await outcome.value.draft.discard()
    throw formError(error, request)
  }
}

function openForm(request: IncomingMessage) {
  const type = request.headers['content-type'] ?? ''
  if (!/^multipart\/form-data\s*;/i.test(type)) {
    throw invalidRequest('An upload must be a form, sent with Content-Type: multipart/form-data', null, { status: 415 })
  }
  try {
    return new Busboy({
      headers: { ...request.headers, 'content-type': type },
      // A part may lack what makes it a file elsewhere: a name and a type.
      isPartAFile: (name) => name === 'file',
      limits: LIMITS,
      highWaterMark: CHUNK_BYTES,
      fileHwm: CHUNK_BYTES,
    })
  } catch (cause) {
    throw invalidRequest('The form has no usable boundary', null, { cause })
  }
}

/**
 * Gives the form all of the body, or what arrives until the form fails. Unlike a pipeline it leaves the request whole when the
 * form fails: to destroy it would take the connection from under the answer.
 */
async function feed(request: IncomingMessage, form: ReturnType<typeof openForm>): Promise<void> {
  const cut = Promise.withResolvers<never>()
  const gone = () => {
    if (!request.complete) cut.reject(new Error('The connection was closed within the upload'))
  }
  request.once('close', gone)
  // The same is said by its end.
  request.on('error', () => {})
  request.pipe(form)
  try {
    await Promise.race([finished(form), cut.promise])
  } finally {
    request.unpipe(form)
    request.off('close', gone)
  }
}

type Received = Omit<NewFile, 'purpose'> & { readonly draft: Draft }

async function receiveFile(
  stream: Readable,
  { filename, declared }: { readonly filename: string | undefined; readonly declared: string },
  files: Pick<Files, 'draft'>,
): Promise<Received> {
  const draft = await files.draft()
  try {
    let contentType: MediaType | null = null
    let head: Buffer | null = Buffer.alloc(0)
    let bytes = 0
    let collected = 0
    for await (const piece of stream as AsyncIterable<Buffer>) {
      bytes += piece.length
      if (bytes > MAX_FILE_BYTES) throw tooLarge()
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
      contentType = contentTypeOf(head, declared)
      await draft.write(head)
      head = null
    }
    if (head !== null) {
      if (bytes === 0) throw invalidRequest('The file is empty', 'file')
      contentType = contentTypeOf(head, declared)
      await draft.write(head)
    }
    return { draft, filename: cleanName(filename), contentType: contentType!, bytes }
  } catch (error) {
    await draft.discard()
    throw error
  }
}

/** Files are kept until they are deleted. A client that counts on their end must hear that it will not come. */
function refuseExpiry(fields: ReadonlyMap<string, string>): void {
  if (![...fields.keys()].some((name) => /^expires_after\b/.test(name))) return
  throw invalidRequest('expires_after is not supported: files are kept until they are deleted', 'expires_after')
}

function readPurpose(text: string | undefined): Purpose {
  const purpose = PURPOSES.find((purpose) => purpose === text)
  if (purpose !== undefined) return purpose
  const expected = PURPOSES.map((purpose) => `'${purpose}'`).join(' or ')
  throw invalidRequest(
    `Invalid 'purpose': ${text === undefined ? 'it is required; ' : ''}expected ${expected}`,
    'purpose',
  )
}

/** The last part of what may be a path, without what no name has; null when nothing is left. */
function cleanName(filename: string | undefined): string | null {
  const name = basename((filename ?? '').replaceAll('\\', '/'))
    .toWellFormed()
    .replace(/\p{Cc}/gu, '')
    .trim()
  const short = [...name].slice(0, MAX_FILENAME_CHARACTERS).join('')
  return short === '' || short === '.' || short === '..' ? null : short
}

function tooLarge(): ApiError {
  return invalidRequest(`The file is larger than ${MAX_FILE_BYTES / 2 ** 20} MiB`, 'file', { status: 413 })
}

/** What the parser and the connection say, as an answer. */
function formError(error: unknown, request: IncomingMessage): unknown {
  if (error instanceof ApiError || !request.complete) return error
  const known = error instanceof Error && /multipart|terminated early|header|part/i.test(error.message)
  return known ? invalidRequest('The form is not valid multipart/form-data', null, { cause: error }) : error
}
