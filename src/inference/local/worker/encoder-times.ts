import { targetSize } from '../../../media/resize.ts'
import type { ImagePart } from '../../engine.ts'
import type { EngineSettings } from '../protocol.ts'

type ImageLimits = NonNullable<EngineSettings['image']>

/** Pictures of no more tokens are encoded without having tried a smaller one. */
const FIRST_TOKENS = 256
/** A larger picture is tried only where it is expected to take no longer than this, in ms. */
const BUDGET_MS = 2_000
/** Sides of a picture that no model takes as it is. */
const HUGE = { width: 2 ** 16, height: 2 ** 16 }

export interface EncoderTimes {
  /** A small picture that the model takes. */
  readonly picture: ImagePart
  /** How long the largest picture takes at most, in ms: measured, or expected from the largest that was measured. */
  readonly longestMs: number
}

/**
 * Encodes pictures that the limits allow, each twice as large as the one before, up to the largest one or as far as the
 * budget goes. The time of an encoder grows with the square of its tokens at most.
 * @param time encodes a picture and returns the ms that it took.
 */
export function measureEncoder(limits: ImageLimits, time: (picture: ImagePart) => number): EncoderTimes {
  const { minTokens, maxTokens } = limits
  let most = Math.min(maxTokens, Math.max(minTokens, FIRST_TOKENS))
  const first = blank(limits, most)
  let ms = time(first)
  let tokens = tokensOf(first, limits)
  const expected = (more: number) => ms * (more / tokens) ** 2
  while (most < maxTokens && expected(Math.min(maxTokens, 2 * most)) <= BUDGET_MS) {
    most = Math.min(maxTokens, 2 * most)
    const picture = blank(limits, most)
    ms = time(picture)
    tokens = tokensOf(picture, limits)
  }
  return { picture: first, longestMs: expected(maxTokens) }
}

function tokensOf({ image }: ImagePart, { pixelsPerToken }: ImageLimits): number {
  return (image.width * image.height) / pixelsPerToken ** 2
}

/** A black picture, as near to a square of `tokens` as the limits allow. */
function blank(limits: ImageLimits, tokens: number): ImagePart {
  const { width, height } = targetSize(HUGE, { ...limits, maxTokens: tokens })
  return { type: 'image', image: { width, height, data: new Uint8Array(width * height * 3) } }
}
