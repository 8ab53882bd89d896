import type { Size } from '../../../media/pixels.ts'
import { targetSize } from '../../../media/resize.ts'
import { fewestTiles } from '../../../media/tiles.ts'
import type { ImageLimits } from '../../../models/card.ts'
import type { ImagePart } from '../../contract/parts.ts'

/** Pictures of at most this many tokens are encoded without trying a smaller one first. */
const FIRST_TOKENS = 256
/** A larger picture is tried only where it is expected to take no longer than this, in ms. */
const BUDGET_MS = 2_000
/** Size of a picture that every model scales down. */
const HUGE = { width: 2 ** 16, height: 2 ** 16 }

export interface EncoderTimes {
  /** A small picture that the model accepts. */
  readonly picture: ImagePart
  /**
   * Duration of the longest encoder call, in ms: measured, or extrapolated from the largest measured picture. A tiled picture
   * takes one call per tile.
   */
  readonly longestMs: number
}

/**
 * Encodes allowed pictures of doubling size, up to the largest or until the budget is used up. An encoder's time grows at
 * most with the square of its tokens. Tiles are all of one size, so the fewest tiles suffice.
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

/** A black picture of about `tokens` tokens, as square as the limits allow. */
function blank(limits: ImageLimits, tokens: number): ImagePart {
  return blankOf(targetSize(HUGE, { ...limits, maxTokens: tokens }))
}

function blankOf({ width, height }: Size): ImagePart {
  return { type: 'image', image: { width, height, data: new Uint8Array(width * height * 3) } }
}
