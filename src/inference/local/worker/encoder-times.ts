import type { Size } from '../../../media/pixels.ts'
import { targetSize } from '../../../media/resize.ts'
import { fewestTiles } from '../../../media/tiles.ts'
import type { ImageLimits } from '../../../models/card.ts'
import type { ImagePart } from '../../contract/parts.ts'

/** Pictures of no more tokens are encoded without having tried a smaller one. */
const FIRST_TOKENS = 256
/** A larger picture is tried only where it is expected to take no longer than this, in ms. */
const BUDGET_MS = 2_000
/** Sides of a picture that no model takes as it is. */
const HUGE = { width: 2 ** 16, height: 2 ** 16 }

export interface EncoderTimes {
  /** A small picture that the model takes. */
  readonly picture: ImagePart
  /**
   * How long one call of the encoder takes at most, in ms: measured, or expected from the largest picture that was measured.
   * A picture that is cut takes a call for each tile.
   */
  readonly longestMs: number
}

/**
 * Encodes pictures that the limits allow, each twice as large as the one before, up to the largest one or as far as the
 * budget goes. The time of an encoder grows with the square of its tokens at most. Where pictures are cut, all tiles are of
 * one size, and the fewest suffice.
 * @param time encodes a picture and returns the ms that the longest call took.
 */
export function measureEncoder(limits: ImageLimits, time: (picture: ImagePart) => number): EncoderTimes {
  const { minTokens, maxTokens, tiles } = limits
  if (tiles) {
    const picture = blankOf(targetSize(fewestTiles(tiles), limits))
    return { picture, longestMs: time(picture) }
  }
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
  return blankOf(targetSize(HUGE, { ...limits, maxTokens: tokens }))
}

function blankOf({ width, height }: Size): ImagePart {
  return { type: 'image', image: { width, height, data: new Uint8Array(width * height * 3) } }
}
