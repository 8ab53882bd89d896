import type { LRUCache } from 'lru-cache'
import { ApiError, invalidRequest } from '../lib/errors/errors.ts'
import type { FairSlots } from '../lib/fair-slots.ts'
import { getOrMake } from '../lib/get-or-make.ts'
import type { AudioLimits } from '../models/card.ts'
import { SAMPLE_RATE } from './audio-tokens.ts'
import type { GridRegion } from './coordinates.ts'
import { decodedBytes } from './decoding/decoded-bytes.ts'
import type { DecoderPool } from './decoding/process/decoder-pool.ts'
import type {
  Cuts,
  DecodedAudio,
  DecodedDocument,
  DecodedImage,
  DecodedVideo,
  DecodeResult,
  DecodeResults,
  DecodeTask,
  MediaData,
} from './decoding/process/protocol.ts'
import type { GuardedFetcher } from './fetching/guarded-fetch.ts'
import type { Spool, SpooledFile } from './fetching/spool.ts'
import type { StoredFiles } from './fetching/stored-files.ts'
import type { ImageTarget } from './image-detail.ts'
import type { MediaInput, MediaRequest, VideoOptions } from './media-request.ts'
import { locate } from './media-source.ts'
import type { MediaStage } from './media-trace.ts'
import {
  type AudioType,
  adviceFor,
  audioType,
  headChecked,
  MEDIA_TYPES,
  type MediaKind,
  type MediaType,
  mediaType,
  typeName,
  type VideoType,
} from './media-type.ts'
import type { Size } from './pixels.ts'

/** The contract's limit for request bodies: a fetched image may be no larger than an inline one. */
const MAX_IMAGE_BYTES = 20 * 2 ** 20
/** The contract's limit for uploaded files. */
const MAX_FILE_BYTES = 128 * 2 ** 20
/** The most bytes that are fetched from an address. */
export const MOST_FETCHED_BYTES: Readonly<Record<MediaKind, number>> = {
  image: MAX_IMAGE_BYTES,
  video: MAX_FILE_BYTES,
  audio: MAX_FILE_BYTES,
  document: MAX_FILE_BYTES,
}

/** The parts that all requests share. */
export interface LoadingParts {
  readonly fetcher: GuardedFetcher
  readonly decoders: DecoderPool
  readonly spool: Spool
  /** Limits concurrent fetches. */
  readonly slots: FairSlots
  readonly files: StoredFiles | null
  readonly decoded: LRUCache<string, DecodeResult>
  /** Whether later requests may find what this one has decoded. */
  readonly keeps: boolean
  /** The most bytes that the decoded media of one request may take. */
  readonly decodedLimit: number
  /** Notes which part of an input the model does not get. */
  note(param: string, text: string): void
  /** Reports the length of a recording, in seconds. */
  heard(seconds: number): void
  /** @param host the host that media is fetched from. */
  measure<Result>(stage: MediaStage, kind: MediaKind, work: MeasuredWork<Result>, host?: string): Promise<Result>
}

/** @param headers continue the request's trace on another server. */
export type MeasuredWork<Result> = (headers?: Readonly<Record<string, string>>) => Promise<Result>

/** Media that stays available until it is disposed of. */
interface Found extends Disposable {
  readonly data: MediaData
  readonly head: Uint8Array
  /** SHA-256, in base64. */
  readonly digest: string
  /** Keeps it available for longer. */
  use(): Disposable | null
}

type Address = { readonly type: 'address'; readonly url: URL } | { readonly type: 'file'; readonly id: string }

/** Loads the media of one request. */
export class Loading implements MediaRequest {
  readonly #parts: LoadingParts
  readonly #organisation: string
  /** Work that several inputs share ends with the request, not with the first of them. */
  readonly #signal: AbortSignal
  readonly #files = new Map<string, Promise<SpooledFile>>()
  readonly #results = new Map<string, Promise<DecodeResult>>()
  /** The hash of a document's bytes, which is computed once for all of its pages. */
  readonly #digests = new WeakMap<Uint8Array, Promise<string>>()
  /** Size of the results. */
  #bytes = 0
  #isFull = false

  constructor(parts: LoadingParts, organisation: string, signal: AbortSignal) {
    this.#parts = parts
    this.#organisation = organisation
    this.#signal = signal
  }

  async image(input: MediaInput, target: ImageTarget | Size, region: GridRegion | null = null): Promise<DecodedImage> {
    const { reference, signal } = input
    if (reference.type === 'frame') {
      const { original } = reference.frame
      return { image: await untilAborted(reference.frame.image(target, region), signal), original }
    }
    using found = await this.#find(input, 'image')
    const options = { target, region }
    return await this.#decode({ type: 'image', data: found.data, ...options }, options, found, input)
  }

  async document(input: MediaInput, textOf: readonly number[] = []): Promise<DecodedDocument> {
    using found = await this.#find(input, 'document')
    return await this.#decode({ type: 'document', data: found.data, textOf }, { textOf }, found, input)
  }

  async page(
    input: MediaInput,
    page: number,
    target: ImageTarget | Size,
    region: GridRegion | null = null,
  ): Promise<DecodedImage> {
    using found = await this.#find(input, 'document')
    const options = { page, target, region }
    return await this.#decode({ type: 'page', data: found.data, ...options }, options, found, input)
  }

  async cuts(input: MediaInput, target: ImageTarget, cuts: Cuts): Promise<DecodedImage> {
    using found = await this.#find(input, 'image')
    const task = { type: 'image', data: found.data, target, region: null, cuts } as const
    return await this.#decode(task, {}, found, { ...input, isUsedOnce: true })
  }

  async video(input: MediaInput, options: VideoOptions): Promise<DecodedVideo> {
    using found = await this.#find(input, 'video')
    const format = mediaType(found.head) as VideoType
    return await this.#decode({ type: 'video', data: found.data, format, ...options }, options, found, input)
  }

  async audio(input: MediaInput, limits: AudioLimits): Promise<DecodedAudio> {
    using found = await this.#find(input, 'audio')
    const format = audioType(mediaType(found.head)!) as AudioType
    const decoded = await this.#decode({ type: 'audio', data: found.data, format, limits }, limits, found, input)
    this.#parts.heard(decoded.samples.length / SAMPLE_RATE)
    return decoded
  }

  [Symbol.dispose](): void {
    for (const file of this.#files.values()) {
      file.then(
        (spooled) => spooled[Symbol.dispose](),
        () => {},
      )
    }
    this.#files.clear()
    this.#results.clear()
  }

  /** @returns media whose type belongs to the kind. */
  async #find({ reference, param, signal }: MediaInput, kind: MediaKind): Promise<Found> {
    signal.throwIfAborted()
    const located = locate(reference, param)
    if (located.type !== 'bytes') return this.#spooled(located, kind, param, signal)
    const { bytes } = located
    checkType(bytes, kind, false, param)
    const digest = await getOrMake(this.#digests, bytes, () => digestOf(bytes))
    signal.throwIfAborted()
    return { data: bytes, head: bytes, digest, use: () => null, [Symbol.dispose]() {} }
  }

  async #spooled(address: Address, kind: MediaKind, param: string, signal: AbortSignal): Promise<Found> {
    const key = `${kind} ${address.type === 'file' ? address.id : address.url.href}`
    const host = address.type === 'address' ? address.url.hostname : undefined
    const spool: MeasuredWork<SpooledFile> = (headers) => this.#spool(address, kind, param, headers)
    for (;;) {
      const shared = getOrMake(this.#files, key, () => this.#parts.measure('fetch', kind, spool, host))
      const file = await untilAborted(named(shared, param), signal)
      const { path, byteLength: length, head, digest } = file
      const data = { path, length }
      const use = file.use()
      if (use) return { data, head, digest, use: () => file.use(), [Symbol.dispose]: use[Symbol.dispose] }
      // The file was removed to make room for other requests. Fetch it again, unless another input already does.
      if (this.#files.get(key) === shared) this.#files.delete(key)
    }
  }

  async #spool(
    address: Address,
    kind: MediaKind,
    param: string,
    headers?: Readonly<Record<string, string>>,
  ): Promise<SpooledFile> {
    const { fetcher, spool, slots } = this.#parts
    using _slot = await slots.take(this.#organisation, this.#signal)
    const check = (head: Uint8Array) => checkType(head, kind, address.type === 'file', param)
    if (address.type === 'file') return await spool.keep(headChecked(this.#stored(address.id, param), check))
    const maxBytes = MOST_FETCHED_BYTES[kind]
    const pieces = fetcher.fetch(address.url, { param, signal: this.#signal, maxBytes, headers })
    return await spool.keep(headChecked(pieces, check))
  }

  /** Opens the file only when the first piece is read. */
  async *#stored(id: string, param: string): AsyncGenerator<Uint8Array, void, void> {
    const { files } = this.#parts
    if (files === null) throw invalidRequest('Uploaded files are not available on this server', param)
    const pieces = await files.resolveFile(id, this.#organisation, this.#signal)
    if (pieces === null) throw invalidRequest(`No such File object: ${id}`, param)
    yield* pieces
  }

  async #decode<Task extends DecodeTask>(
    task: Task,
    options: object,
    found: Found,
    { param, signal, isUsedOnce = false }: MediaInput,
  ): Promise<DecodeResults[Task['type']]> {
    const result = isUsedOnce
      ? await this.#decoded(task, param, signal)
      : await this.#sharedResult(task, options, found, { param, signal })
    if ('notes' in result) for (const note of result.notes ?? []) this.#parts.note(param, note)
    return result as DecodeResults[Task['type']]
  }

  #sharedResult(
    task: DecodeTask,
    options: object,
    found: Found,
    { param, signal }: Pick<MediaInput, 'param' | 'signal'>,
  ): Promise<DecodeResult> {
    const key = [this.#organisation, task.type, JSON.stringify(options), found.digest].join('\0')
    const shared = getOrMake(this.#results, key, () =>
      this.#admit(key, this.#parts.decoded.get(key) ?? this.#newlyDecoded(key, task, found, param), param),
    )
    return untilAborted(named(shared, param), signal)
  }

  /** Counts a result towards the request's limit. A result beyond it is dropped. */
  async #admit(key: string, pending: DecodeResult | Promise<DecodeResult>, param: string): Promise<DecodeResult> {
    const result = await pending
    const bytes = decodedBytes(result)
    if (this.#bytes + bytes > this.#parts.decodedLimit) {
      this.#isFull = true
      this.#results.delete(key)
      throw this.#tooMuch(param)
    }
    this.#bytes += bytes
    return result
  }

  async #newlyDecoded(key: string, task: DecodeTask, found: Found, param: string): Promise<DecodeResult> {
    if (this.#isFull) throw this.#tooMuch(param)
    // The first input may be aborted before the others that share this result.
    using _use = found.use()
    const result = await this.#decoded(task, param, this.#signal)
    if (this.#parts.keeps) this.#parts.decoded.set(key, result)
    return result
  }

  #decoded<Task extends DecodeTask>(
    task: Task,
    param: string,
    signal: AbortSignal,
  ): Promise<DecodeResults[Task['type']]> {
    const input = { organisation: this.#organisation, param, signal }
    const kind = task.type === 'page' ? 'document' : task.type
    return this.#parts.measure('decode', kind, () => this.#parts.decoders.decode(task, input))
  }

  #tooMuch(param: string): ApiError {
    const limit = Math.round(this.#parts.decodedLimit / 2 ** 20)
    return invalidRequest(
      `The decoded media of one request may take at most ${limit} MiB; this request takes more`,
      param,
    )
  }
}

async function digestOf(bytes: Uint8Array): Promise<string> {
  return Buffer.from(await crypto.subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>)).toString('base64')
}

/** @throws ApiError 400 that names the detected type, unless it belongs to the kind. */
function checkType(bytes: Uint8Array, kind: MediaKind, isStored: boolean, param: string): void {
  if (bytes.length === 0) throw invalidRequest('The data is empty', param)
  const type: MediaType | null = mediaType(bytes)
  const supported = MEDIA_TYPES[kind].filter((known) => isStored || known !== 'video/quicktime')
  if (type !== null && supported.includes(kind === 'audio' ? audioType(type) : type)) return
  const advice =
    type === 'video/quicktime' && kind === 'video'
      ? '; QuickTime is accepted as an uploaded file only'
      : adviceFor(typeName(bytes))
  const message = `Unsupported ${kind}: the data is ${typeName(bytes)}; supported types are ${supported.join(', ')}${advice}`
  throw invalidRequest(message, param)
}

/** Renames the error of a shared result, so that each input's error names that input. */
function named<Result>(result: Promise<Result>, param: string): Promise<Result> {
  return result.catch((error) => {
    if (!(error instanceof ApiError) || error.param === null || error.param === param) throw error
    throw error.at(param)
  })
}

function untilAborted<Result>(result: Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    const settled = () => signal.removeEventListener('abort', abort)
    result.then(resolve, reject).then(settled, settled)
  })
}
