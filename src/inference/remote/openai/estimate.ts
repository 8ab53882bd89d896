import type { RgbImage } from '../../../media/pixels.ts'

/** For usage, and for the room left for a reply: estimates never cause a rejection. */
const BYTES_PER_TOKEN = 4

type Piece = { readonly type: 'text'; readonly text: string } | { readonly type: 'image'; readonly image: RgbImage }

/**
 * Estimates the tokens of a prompt that only its server could count.
 * @param pixelsPerToken side in pixels of the square that one token is assumed to cover; null for a model that takes no
 * pictures.
 */
export function estimatedTokens(pieces: Iterable<Piece>, pixelsPerToken: number | null) {
  const side = pixelsPerToken ?? 1
  let bytes = 0
  let imageTokens = 0
  for (const piece of pieces) {
    if (piece.type === 'text') bytes += Buffer.byteLength(piece.text)
    else imageTokens += Math.ceil(piece.image.width / side) * Math.ceil(piece.image.height / side)
  }
  return { imageTokens, promptTokens: Math.ceil(bytes / BYTES_PER_TOKEN) + imageTokens }
}
