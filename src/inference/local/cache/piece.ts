import type { Cut, KvCache } from './kv-cache.ts'
import type { PrefixKey } from './prefix-key.ts'
import type { PrefixMatch } from './prefix-match.ts'

/**
 * A piece is a range of a saved sequence's cells, in memory or on disk. It follows the first cells of its parent. Pieces form
 * trees: the turns of a chat follow each other, and prompts with a common prefix share its pieces.
 */
export interface Piece<Self> {
  readonly organisation: string
  /** Null at the start of a sequence. */
  readonly parent: Self | null
  /** Key of all cells from the start to the end of this piece. */
  readonly key: PrefixKey
  readonly saved: { readonly from: Cut; readonly to: Cut }
}

/** A piece and its ancestors, up to the start of the sequence. */
export function* chainOf<Item extends Piece<Item>>(piece: Item | null): Generator<Item> {
  for (let part = piece; part !== null; part = part.parent) yield part
}

/** The first piece of a chain, from its end, that has cells before the cut. */
export function pieceAt<Item extends Piece<Item>>(piece: Item, cut: Cut): Item {
  for (const part of chainOf(piece)) if (part.saved.from.cells < cut.cells) return part
  return piece
}

/** The match itself, or the end of the parent if a piece can only be used whole. */
export function whereCuttable<Item extends Piece<Item>>(
  kv: Pick<KvCache, 'canCut'>,
  source: Item,
  cut: Cut,
): PrefixMatch<Item> | null {
  const piece = pieceAt(source, cut)
  if (kv.canCut(piece.saved.to, cut)) return { source, cut }
  // The parent was cut where the piece was saved, so it can be cut there again.
  return piece.parent === null ? null : { source: piece.parent, cut: piece.saved.from }
}
