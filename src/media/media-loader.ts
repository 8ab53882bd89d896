import { ByteCache } from '../byte-cache.ts'
import { ApiError, invalidRequest } from '../errors.ts'
import type { AudioLimits, ImageLimits, VideoLimits } from '../models/card.ts'
import type { GridRegion } from './coordinates.ts'
import { DecoderPool } from './decoder-pool.ts'
import type {
  DecodedAudio,
  DecodedImage,
  DecodedVideo,
  DecodeResult,
  DecodeResults,
  DecodeTask,
} from './decoding/protocol.ts'
import { GuardedFetcher, type HostResolver } from './guarded-fetch.ts'
import { locate, type MediaReference } from './media-source.ts'
import {
  type AudioType,
  HEAD_BYTES,
  MEDIA_TYPES,
  type MediaKind,
  type MediaType,
  mediaType,
  typeName,
  type VideoType,
} from './media-type.ts'
import type { Size } from './pixels.ts'
import type { StoredFiles } from './stored-files.ts'

/** Is told how long media takes, apart from what models take. */
export interface MediaMeter {
  /** @param ms until it was there, or had failed; waiting for its turn included. */
  mediaHandled(stage: 'fetch' | 'decode', kind: MediaKind, ms: number): void
}

export interface MediaLoaderOptions {
  /** Hosts (`host` or `host:port`) that media may be fetched from though they are private. */
  readonly allowedHosts?: Iterable<string>
  /** Null while this server keeps no files. */
  readonly files?: StoredFiles | null
  /** Time that a fetch may take. */
  readonly fetchTimeoutMs?: number
  /** Instead of the system's resolver of host names. */
  readonly resolve?: HostResolver
  readonly meter?: MediaMeter | undefined
}

/** One input of a request that is to be loaded. */
export interface MediaInput {
  readonly reference: MediaReference
  /** Names the input in errors. */
  readonly param: string
  /** Fires when this input is not wanted any more. */
  readonly signal: AbortSignal
}

export interface VideoWish {
  readonly limits: VideoLimits
  /** Frames that the request has left for this video. */
  readonly maxFrames: number
  /** Limits of the sound track; null when it is not to be heard. */
  readonly sound: AudioLimits | null
}

/** Loads the media of one request: what it names twice is fetched and decoded once. All errors are a 400 that names the input. */
export interface MediaRequest {
  /**
   * @param target what the picture is stretched to: what suits the model best, or just this.
   * @param region the part of the upright original to give; all of it unless given.
   */
  image(input: MediaInput, target: ImageLimits | Size, region?: GridRegion): Promise<DecodedImage>
  video(input: MediaInput, wish: VideoWish): Promise<DecodedVideo>
  /** @throws ApiError 400 `audio_token_limit_exceeded` when it is longer than the limits allow. */
  audio(input: MediaInput, limits: AudioLimits): Promise<DecodedAudio>
}

/** Body limit of the contract's requests; a fetched picture gets no more than an inline one. */
const MAX_IMAGE_BYTES = 20 * 2 ** 20
/** As large as an uploaded file may be. */
const MAX_FILM_BYTES = 128 * 2 ** 20
const FETCH_TIMEOUT_MS = 30_000
/** Of decoded media that is kept for the next request about it. */
const CACHE_BYTES = 64 * 2 ** 20

/** What clients name -> pixels and samples that a model takes. */
export class MediaLoader {
  readonly #fetcher: GuardedFetcher
  readonly #decoders = new DecoderPool()
  readonly #files: StoredFiles | null
  readonly #meter: MediaMeter | undefined
  readonly #decoded = new ByteCache<DecodeResult>(CACHE_BYTES, sizeOf)

  constructor({ allowedHosts = [], files = null, fetchTimeoutMs, resolve, meter }: MediaLoaderOptions = {}) {
    const hosts = new Set([...allowedHosts].map((host) => host.trim().toLowerCase()))
    const timeoutMs = fetchTimeoutMs ?? FETCH_TIMEOUT_MS
    this.#fetcher = new GuardedFetcher({ allowedHosts: hosts, timeoutMs, ...(resolve ? { resolve } : {}) })
    this.#files = files
    this.#meter = meter
    this.#decoders.warmUp()
  }

  /**
   * @param organisation whose files the request may name, and whose decoded media it may find in the cache: the time
   * that an answer takes would tell one organisation what another has sent.
   * @param signal of the whole request.
   */
  open(organisation: string, signal: AbortSignal): MediaRequest {
    const parts: Parts = {
      fetcher: this.#fetcher,
      decoders: this.#decoders,
      files: this.#files,
      decoded: this.#decoded,
      measure: (stage, kind, work) => this.#measured(stage, kind, work),
    }
    return new Loading(parts, organisation, signal)
  }

  async #measured<Result>(stage: 'fetch' | 'decode', kind: MediaKind, work: Promise<Result>): Promise<Result> {
    const started = performance.now()
    try {
      return await work
    } finally {
      this.#meter?.mediaHandled(stage, kind, performance.now() - started)
    }
  }

  async close(): Promise<void> {
    await Promise.all([this.#fetcher.close(), this.#decoders.close()])
  }
}

interface Parts {
  readonly fetcher: GuardedFetcher
  readonly decoders: DecoderPool
  readonly files: StoredFiles | null
  readonly decoded: ByteCache<DecodeResult>
  measure<Result>(stage: 'fetch' | 'decode', kind: MediaKind, work: Promise<Result>): Promise<Result>
}

interface Loaded {
  readonly bytes: Uint8Array
  readonly isStored: boolean
}

class Loading implements MediaRequest {
  readonly #parts: Parts
  readonly #organisation: string
  /** What several inputs share lives as long as the request, not as the input that came first. */
  readonly #signal: AbortSignal
  readonly #bytes = new Map<string, Promise<Loaded>>()
  readonly #results = new Map<string, Promise<DecodeResult>>()

  constructor(parts: Parts, organisation: string, signal: AbortSignal) {
    this.#parts = parts
    this.#organisation = organisation
    this.#signal = signal
  }

  async image(input: MediaInput, target: ImageLimits | Size, region: GridRegion | null = null): Promise<DecodedImage> {
    const { bytes } = await this.#load(input, 'image')
    return this.#decode({ type: 'image', bytes, target, region }, { target, region }, input)
  }

  async video(input: MediaInput, wish: VideoWish): Promise<DecodedVideo> {
    const { bytes } = await this.#load(input, 'video')
    return this.#decode({ type: 'video', bytes, format: mediaType(bytes) as VideoType, ...wish }, wish, input)
  }

  async audio(input: MediaInput, limits: AudioLimits): Promise<DecodedAudio> {
    const { bytes } = await this.#load(input, 'audio')
    return this.#decode({ type: 'audio', bytes, format: mediaType(bytes) as AudioType, limits }, limits, input)
  }

  /** @returns bytes of a type of the kind. */
  async #load({ reference, param, signal }: MediaInput, kind: MediaKind): Promise<Loaded> {
    const located = locate(reference, param)
    let loaded: Loaded
    if (located.type === 'bytes') loaded = { bytes: located.bytes, isStored: false }
    else {
      const key = `${kind} ${located.type === 'file' ? located.id : located.url.href}`
      const shared = this.#bytes.get(key) ?? this.#parts.measure('fetch', kind, this.#read(located, kind, param))
      this.#bytes.set(key, shared)
      loaded = await untilAborted(named(shared, param), signal)
    }
    checkType(loaded.bytes, kind, loaded.isStored, param)
    return loaded
  }

  async #read(located: { type: 'address'; url: URL } | { type: 'file'; id: string }, kind: MediaKind, param: string) {
    const { fetcher, files } = this.#parts
    if (located.type === 'address') {
      const bytes = await fetcher.fetch(located.url, {
        param,
        signal: this.#signal,
        maxBytes: kind === 'image' ? MAX_IMAGE_BYTES : MAX_FILM_BYTES,
        headBytes: HEAD_BYTES,
        check: (head) => checkType(head, kind, false, param),
      })
      return { bytes, isStored: false }
    }
    if (files === null) throw invalidRequest('Uploaded files are not available on this server', param)
    const bytes = await files.resolveFile(located.id, this.#organisation, this.#signal)
    if (bytes === null) throw invalidRequest(`No such File object: ${located.id}`, param)
    return { bytes, isStored: true }
  }

  async #decode<Task extends DecodeTask>(
    task: Task,
    wish: object,
    { param, signal }: MediaInput,
  ): Promise<DecodeResults[Task['type']]> {
    const digest = Buffer.from(await crypto.subtle.digest('SHA-256', task.bytes as Uint8Array<ArrayBuffer>))
    signal.throwIfAborted()
    const key = [this.#organisation, task.type, JSON.stringify(wish), digest.toString('base64')].join('\0')
    const known = this.#parts.decoded.get(key)
    if (known) return known as DecodeResults[Task['type']]
    let shared = this.#results.get(key)
    if (!shared) {
      const decoding = this.#parts.decoders.decode(task, param, this.#signal)
      shared = this.#parts.measure<DecodeResult>('decode', task.type, decoding)
      shared.then(
        (result) => this.#parts.decoded.set(key, result),
        () => {},
      )
      this.#results.set(key, shared)
    }
    return untilAborted(named(shared, param), signal) as Promise<DecodeResults[Task['type']]>
  }
}

/** @throws ApiError 400 that says what the bytes are, unless they are of the kind. */
function checkType(bytes: Uint8Array, kind: MediaKind, isStored: boolean, param: string): void {
  const type: MediaType | null = mediaType(bytes)
  const taken = MEDIA_TYPES[kind].filter((known) => isStored || known !== 'video/quicktime')
  if (type !== null && taken.includes(type)) return
  const advice = type === 'video/quicktime' && kind === 'video' ? '; QuickTime is taken as an uploaded file' : ''
  const message = `Unsupported ${kind}: the data is ${typeName(bytes)}; supported are ${taken.join(', ')}${advice}`
  throw invalidRequest(message, param)
}

/** Several inputs may share what failed; each error names its own. */
function named<Result>(result: Promise<Result>, param: string): Promise<Result> {
  return result.catch((error) => {
    if (!(error instanceof ApiError) || error.param === param) throw error
    const { message, status, type, code, retryAfter, cause } = error
    throw new ApiError(message, {
      status,
      type,
      code,
      param,
      cause,
      ...(retryAfter === undefined ? {} : { retryAfter }),
    })
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

function sizeOf(result: DecodeResult): number {
  if ('image' in result) return result.image.data.byteLength
  if ('samples' in result) return result.samples.byteLength
  const frames = result.frames.reduce((sum, { image }) => sum + image.data.byteLength, 0)
  return frames + (result.sound?.samples.byteLength ?? 0)
}
