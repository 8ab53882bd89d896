import { invalidRequest } from '../errors.ts'
import type { ImageLimits } from '../models/card.ts'
import type { GridRegion } from './coordinates.ts'
import { GuardedFetcher } from './guarded-fetch.ts'
import { ImageDecoder } from './image-decoder.ts'
import { IMAGE_TYPES, imageType, refusedType } from './image-type.ts'
import { readMedia } from './media-source.ts'
import type { RgbImage, Size } from './pixels.ts'

export interface LoadedImage {
  /** Upright, stretched to the size that the model takes. */
  readonly image: RgbImage
  /** Size of the upright original, for coordinates in its pixels. */
  readonly original: Size
}

export interface ImageLoaderOptions {
  /** Hosts (`host` or `host:port`) that pictures may be fetched from though they are private. */
  readonly allowedHosts?: Iterable<string>
}

/** Body limit of the contract's requests; a fetched picture gets no more than an inline one. */
const MAX_BYTES = 20 * 2 ** 20
const FETCH_TIMEOUT_MS = 20_000

/** URLs that clients send -> pixels that a model takes. */
export class ImageLoader {
  readonly #fetcher: GuardedFetcher
  readonly #decoder = new ImageDecoder()

  constructor(options: ImageLoaderOptions = {}) {
    const allowedHosts = new Set([...(options.allowedHosts ?? [])].map((host) => host.trim().toLowerCase()))
    this.#fetcher = new GuardedFetcher({ allowedHosts, maxBytes: MAX_BYTES, timeoutMs: FETCH_TIMEOUT_MS })
    this.#decoder.warmUp()
  }

  /**
   * @param region the part of the upright original to give; all of it unless given.
   * @throws ApiError 400 naming `param` for everything that can be wrong with the address or the bytes.
   */
  async load(
    url: string,
    limits: ImageLimits,
    param: string,
    signal: AbortSignal,
    region: GridRegion | null = null,
  ): Promise<LoadedImage> {
    const bytes = await readMedia(url, this.#fetcher, param, signal)
    if (!imageType(bytes)) {
      throw invalidRequest(
        `Unsupported image: the data is ${refusedType(bytes)}; supported are ${IMAGE_TYPES.join(', ')}`,
        param,
      )
    }
    return this.#decoder.decode(bytes, limits, param, signal, region)
  }

  async close(): Promise<void> {
    await Promise.all([this.#fetcher.close(), this.#decoder.close()])
  }
}
