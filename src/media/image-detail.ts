import type { ImageLimits, VideoLimits } from '../models/card.ts'

/** How closely a client wants an image to be looked at. */
export const IMAGE_DETAILS = ['low', 'high', 'auto', 'original'] as const
export type ImageDetail = (typeof IMAGE_DETAILS)[number]

/** The limits within which the size of a prepared image is chosen. */
export interface ImageTarget extends ImageLimits {
  /** Sides are rounded up, so that no detail of an image that fits is lost. */
  readonly roundUp?: boolean
}

/** `low` adds at most this share of the range between a model's fewest and most tokens for an image. */
const LOW_SHARE = 1 / 4

/**
 * A model's limits for an image with the given detail. The detail changes nothing for a model that takes images of one
 * size, or of one number of tokens. For a model that cuts images, `low` makes fewer tiles, unless their number depends
 * on the aspect ratio alone. A model with sizes for `auto` gets its larger ones for `high` and `original` only.
 */
export function targetFor(limits: ImageLimits, detail: ImageDetail = 'auto'): ImageTarget {
  if (limits.square || limits.fills) return limits
  const { minTokens, maxTokens } = limits
  const auto = autoOf(limits)
  if (detail === 'auto') return { ...limits, ...auto }
  if (detail === 'low')
    return { ...limits, maxTokens: minTokens + Math.floor((auto.maxTokens - minTokens) * LOW_SHARE) }
  const detailed = { ...limits, minTokens: auto.minTokens, maxTokens }
  return detail === 'original' ? { ...detailed, roundUp: true } : detailed
}

/** An object that spans a third of a picture's side is seen as well with a quarter of the tokens. */
const CLOSE_SHARE = 1 / 4

/**
 * Limits for a picture that shows one object large. A model for videos also handles pictures as small as their frames.
 * @param limits for the model's images; `video` for the frames of its videos.
 */
export function closeTarget(limits: ImageLimits, video: VideoLimits | undefined): ImageLimits {
  if (limits.square || limits.fills || limits.tiles) return limits
  const minTokens = Math.min(limits.minTokens, video?.maxTokens ?? limits.minTokens)
  return { ...limits, minTokens, maxTokens: Math.max(minTokens, Math.round(limits.maxTokens * CLOSE_SHARE)) }
}

/** The sizes for `auto`, within the model's limits, which a card may have narrowed. */
function autoOf({ minTokens, maxTokens, auto }: ImageLimits): Pick<ImageLimits, 'minTokens' | 'maxTokens'> {
  const most = Math.max(minTokens, Math.min(auto?.maxTokens ?? maxTokens, maxTokens))
  return { minTokens: Math.min(Math.max(auto?.minTokens ?? minTokens, minTokens), most), maxTokens: most }
}
