import { LRUCache } from 'lru-cache'
import { invalidRequest } from '../lib/errors/errors.ts'
import { FairSlots } from '../lib/fair-slots.ts'
import { hostSet } from '../lib/guarded-agent.ts'
import type { TracedStage } from '../lib/traced-stage.ts'
import { decodedBytes } from './decoding/decoded-bytes.ts'
import { DecoderPool } from './decoding/process/decoder-pool.ts'
import { type FetchedMedia, fetchedMedia, ofAnyKind } from './fetching/fetched-media.ts'
import { GuardedFetcher, type HostResolver } from './fetching/guarded-fetch.ts'
import { Spool, type SpoolOptions } from './fetching/spool.ts'
import type { StoredFiles } from './fetching/stored-files.ts'
import { Loading, type LoadingParts, type MeasuredWork, MOST_FETCHED_BYTES } from './loading.ts'
import type { MediaRequest } from './media-request.ts'
import { locate } from './media-source.ts'
import type { MediaStage, MediaTrace } from './media-trace.ts'
import type { MediaKind } from './media-type.ts'
import type { Sandbox, SandboxMode } from './sandbox/choice.ts'

export interface FetchOptions {
  readonly organisation: string
  /** Names the address in errors. */
  readonly param: string
  readonly signal: AbortSignal
}

export interface OpenOptions {
  /** Follows the request. */
  readonly trace?: MediaTrace | undefined
  /** Whether decoded media is not cached, because later requests will not be about it. */
  readonly isTransient?: boolean | undefined
}

/** Measures the time that media takes, apart from the models. */
export interface MediaMeter {
  /** @param ms time until it was done or had failed, including time in the queue. */
  mediaHandled(stage: MediaStage, kind: MediaKind, ms: number): void
}

export interface MediaLoaderOptions {
  /** The allow-list: hosts (`host` or `host:port`) that may be private. */
  readonly allowedHosts?: Iterable<string>
  /** Null when this server stores no files. */
  readonly files?: StoredFiles | null
  /** Time limit of a fetch. */
  readonly fetchTimeoutMs?: number
  /** Resolves host names; the system's resolver by default. */
  readonly resolve?: HostResolver
  readonly meter?: MediaMeter | undefined
  /** Where media is stored while it is decoded. */
  readonly spool?: SpoolOptions
  /** The most bytes that the decoded media of one request may take. */
  readonly decodedBytes?: number
  /** The most concurrent fetches, over all requests. */
  readonly fetches?: number
  /** Whether decoders are confined; by default, if the system supports it. */
  readonly sandbox?: SandboxMode | undefined
  /** Decoders of the caller, which closes them; its own by default. */
  readonly decoders?: DecoderPool | undefined
}

const FETCH_TIMEOUT_MS = 30_000
/** Each fetch has a connection, a file, and some pieces in memory. */
const FETCHES = 128
/**
 * Limit per request: 200 seconds of audio take 12 MiB, and 256 images of 200 tokens 150 MiB. Without it, 256 audio
 * inputs of ten minutes each would take 10 GiB.
 */
const DECODED_BYTES = 256 * 2 ** 20
/** Decoded media kept for later requests about it. */
const CACHE_BYTES = 64 * 2 ** 20

/** Turns the media that clients refer to into the pixels and samples that a model takes. */
export class MediaLoader {
  /** What all requests share. */
  readonly #parts: Omit<LoadingParts, 'keeps' | 'measure' | 'note' | 'heard'>
  readonly #meter: MediaMeter | undefined
  readonly #ownDecoders: DecoderPool | null

  /** @throws Error when a sandbox is required and the system has none. */
  constructor(options: MediaLoaderOptions = {}) {
    const decoders = options.decoders ?? new DecoderPool({ sandbox: options.sandbox ?? 'auto' })
    this.#ownDecoders = options.decoders === undefined ? decoders : null
    const { allowedHosts = [], fetchTimeoutMs: timeoutMs = FETCH_TIMEOUT_MS, resolve } = options
    this.#meter = options.meter
    this.#parts = {
      fetcher: new GuardedFetcher({ allowedHosts: hostSet(allowedHosts), timeoutMs, resolve }),
      decoders,
      spool: new Spool(options.spool),
      slots: new FairSlots(options.fetches ?? FETCHES),
      files: options.files ?? null,
      decoded: new LRUCache({
        maxSize: CACHE_BYTES,
        // The key of an entry takes memory too: audio without samples and the number of a document's pages have none.
        sizeCalculation: (result) => Math.max(256, decodedBytes(result)),
      }),
      decodedLimit: options.decodedBytes ?? DECODED_BYTES,
    }
    decoders.warmUp()
  }

  /** What protects the server from its decoders. */
  get sandbox(): Sandbox {
    return this.#parts.decoders.sandbox
  }

  /**
   * Opens the media of one request.
   * @param organisation limits the request to this organisation's files and cached media. With a shared cache, response
   * times would reveal what another organisation has sent.
   * @param signal aborts the whole request.
   */
  open(organisation: string, signal: AbortSignal, { trace, isTransient = false }: OpenOptions = {}): MediaRequest {
    const parts: LoadingParts = {
      ...this.#parts,
      keeps: !isTransient,
      measure: (stage, kind, work, host) => this.#measured(stage, kind, work, trace?.begin?.(stage, kind, host)),
      note: (param, text) => trace?.note?.(param, text),
      heard: (seconds) => trace?.heard?.(seconds),
    }
    return new Loading(parts, organisation, signal)
  }

  /**
   * Fetches media of any kind from an address, unchanged, with the guards and limits of a request's media.
   * @throws ApiError 400 naming `param`, 503 when there is no room.
   */
  async fetch(address: string, { organisation, param, signal }: FetchOptions): Promise<FetchedMedia> {
    const located = locate({ type: 'url', url: address }, param)
    if (located.type !== 'address') throw invalidRequest('The URL must be the http(s) URL of media elsewhere', param)
    const { fetcher, slots, spool } = this.#parts
    using _slot = await slots.take(organisation, signal)
    const maxBytes = Math.max(...Object.values(MOST_FETCHED_BYTES))
    const pieces = fetcher.fetch(located.url, { param, signal, maxBytes })
    return fetchedMedia(await spool.keep(ofAnyKind(pieces, MOST_FETCHED_BYTES, param)))
  }

  async #measured<Result>(
    stage: MediaStage,
    kind: MediaKind,
    work: MeasuredWork<Result>,
    traced?: TracedStage,
  ): Promise<Result> {
    const started = performance.now()
    try {
      return await work(traced?.headers)
    } catch (error) {
      traced?.end(error)
      throw error
    } finally {
      this.#meter?.mediaHandled(stage, kind, performance.now() - started)
      traced?.end()
    }
  }

  async close(): Promise<void> {
    const { fetcher, spool } = this.#parts
    await Promise.all([fetcher.close(), this.#ownDecoders?.close()])
    await spool.close()
  }
}
