import type { RgbImage } from '../../../media/pixels.ts'

/** For usage, and for the room that is left to a reply: an estimate refuses nothing that a server would take. */
const BYTES_PER_TOKEN = 4

type Piece = { readonly type: 'text'; readonly text: string } | { readonly type: 'image'; readonly image: RgbImage }

/**
 * Estimates how many tokens a prompt has, where only its server could count them.
 * @param pixelsPerToken side in pixels of the square that one token is taken to cover; null for a model that sees no pictures.
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
