import type { LocalModelCard } from '../../../models/card.ts'
import { availableMemory } from '../../../models/machine-memory.ts'

/** Sizes of the caches that the engine process has beside the KV cache, in bytes; 0 for none. */
export interface CacheSizes {
  /** Copies of the KV cells of finished work. */
  readonly prefixCacheBytes: number
  /** What the encoders computed for images and audio. */
  readonly encoderCacheBytes: number
}

/** What the server's settings say; the card takes precedence. Where neither says anything, it goes by the memory. */
export type CacheSettings = Partial<{ readonly [Name in keyof CacheSizes]: number | null }> & {
  /** Memory that all models may take together with their caches; null for no limit. */
  readonly memoryLimitBytes?: number | null
}

/** The sizes of a model that decide those of its caches, in bytes. */
export interface ModelNeeds {
  readonly kvCache: number
  /** All that the model takes without these caches. */
  readonly withoutCaches: number
  /** Bytes of the embedding of one token of an image or of audio. */
  readonly embedding: number
}

/** Room for two conversations of the maximum length, so that one does not evict all others. */
const PREFIX_CACHE_PER_KV_CACHE = 2
/** Fractions of the memory that the model leaves free. */
const PREFIX_CACHE_SHARE = 1 / 4
const ENCODER_CACHE_SHARE = 1 / 16
/** Fraction of the remaining limit for each cache; other models share the limit. */
const LIMIT_SHARE = 1 / 16
/** Maximum entries of the largest size, images or audio windows, for which the encoder cache has room. */
const ENCODED_MEDIA = 128
/** Encoders without a window of their own take sound in windows of 30 s. */
const AUDIO_WINDOW_SECONDS = 30

/** @param available bytes of memory that the machine, or its container, has left for the model. */
export function cacheSizes(
  card: LocalModelCard,
  needs: ModelNeeds,
  settings: CacheSettings = {},
  available = availableMemory(),
): CacheSizes {
  const left = Math.max(0, available - needs.withoutCaches)
  const leftOfLimit = Math.max(0, (settings.memoryLimitBytes ?? Number.POSITIVE_INFINITY) - needs.withoutCaches)
  const ofCard = card.engine.prefixCache === undefined ? null : card.engine.prefixCache * 2 ** 20
  const prefixCacheBytes =
    ofCard ??
    settings.prefixCacheBytes ??
    Math.min(PREFIX_CACHE_PER_KV_CACHE * needs.kvCache, PREFIX_CACHE_SHARE * left, LIMIT_SHARE * leftOfLimit)
  const encoderCacheBytes =
    settings.encoderCacheBytes ??
    Math.min(
      ENCODED_MEDIA * largestMedia(card) * needs.embedding,
      ENCODER_CACHE_SHARE * left,
      LIMIT_SHARE * leftOfLimit,
    )
  return { prefixCacheBytes: Math.floor(prefixCacheBytes), encoderCacheBytes: Math.floor(encoderCacheBytes) }
}

/** Tokens of the largest image, pair of frames or window of audio. */
function largestMedia({ image, video, audio }: LocalModelCard): number {
  const audioTokens =
    audio === undefined ? 0 : Math.ceil(audio.tokensPerSecond * (audio.windowSeconds ?? AUDIO_WINDOW_SECONDS))
  return Math.max(image?.maxTokens ?? 0, video?.maxTokens ?? 0, audioTokens)
}
