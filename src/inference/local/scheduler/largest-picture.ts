import type { ImagePart } from '../../engine.ts'
import type { EngineSettings } from '../protocol.ts'

/** A narrower image is an unlikely one. */
const HIGHEST_ASPECT = 2

/**
 * A black image of the most tokens that the limits allow, for any limits: of the most whose sides are within 2 to 1, or
 * else the one that is nearest to a square.
 */
export function largestPicture(limits: NonNullable<EngineSettings['image']>): ImagePart {
  const { pixelsPerToken, minTokens, maxTokens } = limits
  let [columns, rows] = [maxTokens, 1]
  for (let tokens = maxTokens; tokens >= minTokens && columns > HIGHEST_ASPECT * rows; tokens--) {
    const side = largestDivisor(tokens)
    if (tokens / side / side < columns / rows) [columns, rows] = [tokens / side, side]
  }
  const [width, height] = [columns * pixelsPerToken, rows * pixelsPerToken]
  return { type: 'image', image: { width, height, data: new Uint8Array(width * height * 3) } }
}

/** The largest divisor that is not above the square root. */
function largestDivisor(number: number): number {
  let divisor = Math.floor(Math.sqrt(number))
  while (number % divisor !== 0) divisor--
  return divisor
}
