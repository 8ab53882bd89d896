import type { IncomingMessage } from 'node:http'
import { availableParallelism } from 'node:os'
import { promisify } from 'node:util'
import { zstdDecompress } from 'node:zlib'
import { Tinypool } from 'tinypool'
import { ApiError, invalidRequest } from '../../../lib/errors/errors.ts'
import { getOrMake } from '../../../lib/get-or-make.ts'
import { InlineMedia } from '../../../media/inline-media.ts'
import type { ApiCall } from '../api-call.ts'
import { ClientDisconnected } from '../connection/abort-signal.ts'
import type { BodyFormat } from './body-format.ts'
import type { BodyOutcome, BodyTask } from './body-worker.ts'
import type { ByteBudget, ByteLease } from './byte-budget.ts'
import { splitForm, urlEncodedFields } from './form-parts.ts'
import { putAt } from './inline-bytes.ts'
import { type ParsedBody, parseJson } from './parse-json.ts'

/** Set by the contract. */
export const BODY_LIMIT_BYTES = 20 * 2 ** 20
/** Smaller bodies are parsed on the event loop, in a millisecond or two; handing one to a thread takes as long. */
const PARSED_AT_ONCE_BYTES = 128 * 1024
/** A thread that is idle for this long ends and frees its memory. */
const IDLE_MS = 30_000
/** The part of a form with the JSON body. */
const BODY_PART = 'request'

/** The fields of a request, as parsed by its schema. */
export type ReadBody<Fields> = Pick<ParsedBody<Fields>, 'value' | 'rawParameters'>

export interface ReadForm<Fields> extends ReadBody<Fields> {
  /** The other parts, by name. The user of a part releases it; the rest are released when the response closes. */
  readonly parts: ReadonlyMap<string, InlineMedia>
}

export interface FormFields {
  /** The texts that are not empty. */
  readonly fields: Readonly<Record<string, string | readonly string[]>>
  /** Null where the form has none. */
  readonly file: InlineMedia | null
}

/**
 * Reads JSON bodies. A large body is admitted by size before it is read, and parsed in a thread, so that it does not
 * delay other requests. Its inline media become bytes.
 *
 * A memory limit on the threads would not protect the server: a thread that runs out of memory can end the process anyway.
 * Instead, `BODY_LIMIT_BYTES` and `MOST_VALUES` are checked before parsing. Within them the worst body takes less than
 * 256 MB, a small part of a thread's memory (`body-reader.test.ts`).
 */
export class BodyReader {
  readonly #budget: ByteBudget
  readonly #threads = new Tinypool({
    filename: new URL('./body-worker.ts', import.meta.url).href,
    minThreads: 0,
    maxThreads: Math.min(2, availableParallelism()),
    idleTimeout: IDLE_MS,
  })
  #isClosed = false

  constructor(budget: ByteBudget) {
    this.#budget = budget
  }

  /**
   * @returns the body as parsed by its schema. Its share of the byte budget is released once its media have been
   * decoded, at the latest when the response closes.
   * @throws ApiError 400 when the body is invalid, 413 when it is too large, 503 when the budget has no room in time.
   */
  async read<Fields>(call: ApiCall, format: BodyFormat<Fields>): Promise<ReadBody<Fields>> {
    const declared = declaredLength(call)
    if (declared <= PARSED_AT_ONCE_BYTES) return parseJson(await collect(call.body, declared), format.schema, false)
    const { bytes, lease } = await this.#admit(call)
    const { length } = bytes
    return withInlineMedia(await this.#parse(bytes, format, call.closed), lease, length)
  }

  /**
   * Reads a form whose part `request` is the JSON body and whose other parts are media.
   * @throws ApiError as `read` does.
   */
  async readForm<Fields>(call: ApiCall, format: BodyFormat<Fields>): Promise<ReadForm<Fields>> {
    const { bytes, lease } = await this.#admit(call)
    const split = await splitForm(bytes, call.headers['content-type'] ?? '')
    const parts = new Map([...split].map(([name, contents]) => [name, contents.at(-1)!]))
    const body = parts.get(BODY_PART)
    if (body === undefined)
      throw invalidRequest(`The form has no part '${BODY_PART}' with the JSON of the request`, null)
    parts.delete(BODY_PART)
    const { media, held } = mediaOf(parts, lease)
    const parsed = await this.#parse(body, format, call.closed)
    return { ...withInlineMedia(parsed, lease, bytes.length - held), parts: media }
  }

  /**
   * Reads a form of texts and one file; one without a file may be URL-encoded.
   * @param file name of the part that is the file.
   * @param lists names of texts that may be repeated, with or without `[]` at their ends.
   * @returns the texts by the names of their parts, and the file as `readForm` does.
   * @throws ApiError as `read` does; 415 for another body.
   */
  async readFields(call: ApiCall, file: string, lists: readonly string[]): Promise<FormFields> {
    const type = call.headers['content-type'] ?? ''
    if (/^application\/x-www-form-urlencoded\b/i.test(type)) {
      const { bytes, lease } = await this.#admit(call)
      lease.giveBack(bytes.length)
      return { fields: fieldsOf(urlEncodedFields(bytes), lists), file: null }
    }
    if (!/^multipart\/form-data\s*;/i.test(type))
      throw invalidRequest('Expected a form, with Content-Type: multipart/form-data', null, { status: 415 })
    const { bytes, lease } = await this.#admit(call)
    const parts = await splitForm(bytes, type, lists)
    const [sent] = parts.get(file) ?? []
    parts.delete(file)
    const { media, held } = mediaOf(new Map(sent && [[file, sent]]), lease)
    lease.giveBack(bytes.length - held)
    const texts = [...parts].flatMap(([name, contents]) =>
      contents.map((content) => [name, content.toString()] as const),
    )
    return { fields: fieldsOf(texts, lists), file: media.get(file) ?? null }
  }

  /**
   * Reads a body that is not JSON. Its bytes may outlive the response.
   * @throws ApiError 413 when it is too large, 503 when the budget has no room in time.
   */
  async readBytes(call: ApiCall): Promise<Buffer> {
    return (await this.#admit(call)).bytes
  }

  /**
   * Waits for room for the bytes of a message.
   * @throws ApiError 503 when there is none in time.
   */
  reserve(
    bytes: number,
    isBegun: boolean,
    { principal, closed }: Pick<ApiCall, 'principal' | 'closed'>,
  ): Promise<ByteLease> {
    return this.#budget.acquire(bytes, principal.organisation, closed, isBegun)
  }

  /** Waits for room for a whole body, reads it, and decompresses it if it is compressed. */
  async #admit(call: ApiCall) {
    const declared = declaredLength(call)
    const lease = call.lease ?? (await this.#budget.acquire(declared, call.principal.organisation, call.closed))
    call.closed.addEventListener('abort', () => lease.release(), { once: true })
    const sent = await collect(call.body, declared)
    const bytes = isCompressed(call) ? await decompressed(sent) : sent
    lease.shrink(bytes.length)
    return { bytes, lease }
  }

  /** Ends all threads, including busy ones: their clients have disconnected. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#threads.destroy()
  }

  async #parse<Fields>(
    bytes: Buffer<ArrayBuffer>,
    { schema, module, name }: BodyFormat<Fields>,
    closed: AbortSignal,
  ): Promise<ParsedBody<Fields>> {
    if (bytes.length <= PARSED_AT_ONCE_BYTES) return parseJson(bytes, schema, true)
    const task: BodyTask = { bytes, module, name }
    const outcome: BodyOutcome<Fields> = await this.#threads
      .run(task, { transferList: [bytes.buffer] })
      .catch((error: unknown) => {
        // When the server closes, `closed` fires for its last responses only afterwards.
        const reason = this.#isClosed ? new ClientDisconnected('The client closed the connection') : error
        throw closed.aborted ? closed.reason : reason
      })
    if ('body' in outcome) return outcome.body
    const { text, ...fields } = outcome.error
    throw new ApiError(text, fields)
  }
}

/**
 * Returns the body's length in bytes. A chunked or compressed body counts as the largest allowed.
 * @throws ApiError 413 for a body that is too large.
 */
function declaredLength(call: ApiCall): number {
  const { 'content-length': length, 'transfer-encoding': encoding } = call.headers
  if (length !== undefined && Number(length) > BODY_LIMIT_BYTES) throw tooLarge()
  if (length !== undefined && !isCompressed(call)) return Number(length)
  return length === undefined && encoding === undefined ? 0 : BODY_LIMIT_BYTES
}

/** Routes without support for compressed bodies have already rejected them. */
function isCompressed({ headers }: ApiCall): boolean {
  return headers['content-encoding']?.toLowerCase() === 'zstd'
}

/** @throws ApiError 413 as soon as the body is longer than allowed, 400 for bytes that are not compressed. */
async function decompressed(bytes: Buffer): Promise<Buffer<ArrayBuffer>> {
  try {
    // A separate copy, because a transfer to a thread takes a buffer's whole underlying memory.
    const whole = await zstd(bytes, { maxOutputLength: BODY_LIMIT_BYTES })
    const own = Buffer.allocUnsafeSlow(whole.length)
    whole.copy(own)
    return own
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge()
    throw invalidRequest('The request body is not valid zstd', null, { cause })
  }
}

const zstd = promisify(zstdDecompress)

/** Collects texts by name. An empty text counts as absent, and the last one counts for a name that is not a list. */
function fieldsOf(texts: Iterable<readonly [string, string]>, lists: readonly string[]): FormFields['fields'] {
  const fields = new Map<string, string>()
  const items = new Map<string, string[]>()
  for (const [name, text] of texts) {
    const plain = name.replace(/\[\]$/, '')
    if (text === '') continue
    if (lists.includes(plain)) getOrMake(items, plain, () => []).push(text)
    else fields.set(name, text)
  }
  return Object.fromEntries<string | string[]>([...fields, ...items])
}

/** The parts as media, and the share of the lease that they keep until they are released. */
function mediaOf(parts: ReadonlyMap<string, Uint8Array>, lease: ByteLease) {
  const media = new Map<string, InlineMedia>()
  let held = 0
  for (const [name, content] of parts) {
    held += content.byteLength
    media.set(name, new InlineMedia(content, () => lease.giveBack(content.byteLength)))
  }
  return { media, held }
}

/** Puts the media back in their places. Each keeps its share of the lease until it is released. */
function withInlineMedia<Fields>(
  { value, rawParameters, inline }: ParsedBody<Fields>,
  lease: ByteLease,
  length: number,
): ReadBody<Fields> {
  let held = 0
  for (const { path, bytes } of inline) {
    held += bytes.byteLength
    putAt(value, path, new InlineMedia(bytes, () => lease.giveBack(bytes.byteLength)))
  }
  if (held > 0) lease.giveBack(length - held)
  return { value, rawParameters }
}

/**
 * Reads a whole body into its own buffer.
 * @param expected maximum bytes to accept; Node itself ends a body at its declared length.
 * @throws ApiError 413 as soon as the body is longer.
 */
async function collect(body: ApiCall['body'], expected: number): Promise<Buffer<ArrayBuffer>> {
  const bytes = Buffer.allocUnsafeSlow(expected)
  let length = 0
  const take = (piece: Buffer) => {
    if (length + piece.length > expected) throw tooLarge()
    length += piece.copy(bytes, length)
  }
  if (Buffer.isBuffer(body)) take(body)
  else await eachPiece(body, take)
  return bytes.subarray(0, length)
}

/** Uses events: leaving a `for await` loop would destroy the request, and with it the socket that the error needs. */
function eachPiece(raw: IncomingMessage, take: (piece: Buffer) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const disconnect = () =>
      reject(new ClientDisconnected('The client closed the connection while sending its request'))
    if (raw.destroyed) return disconnect()
    const settle = (act: () => void) => {
      raw.off('data', onData).off('end', onEnd).off('error', onClose).off('close', onClose)
      act()
    }
    const onData = (piece: Buffer) => {
      try {
        take(piece)
      } catch (error) {
        raw.pause()
        settle(() => reject(error))
      }
    }
    const onEnd = () => settle(resolve)
    const onClose = () => settle(disconnect)
    raw.on('data', onData).on('end', onEnd).on('error', onClose).on('close', onClose)
  })
}

function tooLarge(): ApiError {
  return invalidRequest(`The request body is larger than ${BODY_LIMIT_BYTES / 2 ** 20} MB`, null, { status: 413 })
}
