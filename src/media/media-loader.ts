import { LRUCache } from 'lru-cache'
import { decodedBytes } from './decoded-bytes.ts'
import { DecoderPool } from './decoder-pool.ts'
import type { DecodeResult } from './decoding/protocol.ts'
import { FairSlots } from './fair-slots.ts'
import { GuardedFetcher, type HostResolver } from './guarded-fetch.ts'
import { Loading, type LoadingParts } from './loading.ts'
import type { MediaRequest } from './media-request.ts'
import type { MediaKind } from './media-type.ts'
import { Spool, type SpoolOptions } from './spool.ts'
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
  /** Where media lies while it is decoded. */
  readonly spool?: SpoolOptions
  /** Most that the decoded media of one request may take. */
  readonly decodedBytes?: number
  /** At a time, of all requests. */
  readonly fetches?: number
}

const FETCH_TIMEOUT_MS = 30_000
/** Each has a connection, a file, and some pieces in memory. */
const FETCHES = 128
/**
 * Of one request: 200 seconds of sound are 12 MiB, and 256 pictures of 200 tokens 150 MiB. Without a limit, a multilook of
 * 256 prompts with ten minutes of sound each would take 10 GiB.
 */
const DECODED_BYTES = 256 * 2 ** 20
/** Of decoded media that is kept for the next request about it. */
const CACHE_BYTES = 64 * 2 ** 20

/** What clients name -> pixels and samples that a model takes. */
export class MediaLoader {
  readonly #fetcher: GuardedFetcher
  readonly #decoders = new DecoderPool()
  readonly #spool: Spool
  readonly #slots: FairSlots
  readonly #decodedLimit: number
  readonly #files: StoredFiles | null
  readonly #meter: MediaMeter | undefined
  readonly #decoded = new LRUCache<string, DecodeResult>({
    maxSize: CACHE_BYTES,
    // The cache takes no entry of size 0, which audio without samples would have.
    sizeCalculation: (result) => Math.max(1, decodedBytes(result)),
  })

  constructor(options: MediaLoaderOptions = {}) {
    const { allowedHosts = [], files = null, fetchTimeoutMs, fetches = FETCHES, resolve, meter, spool } = options
    const hosts = new Set([...allowedHosts].map((host) => host.trim().toLowerCase()))
    const timeoutMs = fetchTimeoutMs ?? FETCH_TIMEOUT_MS
    this.#fetcher = new GuardedFetcher({ allowedHosts: hosts, timeoutMs, ...(resolve ? { resolve } : {}) })
    this.#files = files
    this.#meter = meter
    this.#spool = new Spool(spool)
    this.#slots = new FairSlots(fetches)
    this.#decodedLimit = options.decodedBytes ?? DECODED_BYTES
    this.#decoders.warmUp()
  }

  /**
   * @param organisation whose files the request may name, and whose decoded media it may find in the cache: the time
   * that an answer takes would tell one organisation what another has sent.
   * @param signal of the whole request.
   */
  open(organisation: string, signal: AbortSignal): MediaRequest {
    const parts: LoadingParts = {
      fetcher: this.#fetcher,
      decoders: this.#decoders,
      spool: this.#spool,
      slots: this.#slots,
      files: this.#files,
      decoded: this.#decoded,
      decodedLimit: this.#decodedLimit,
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
    await this.#spool.close()
  }
}
