import type { Cut, SavedRange } from './kv-cache.ts'
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
  readonly saved: SavedRange
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

/** The match itself, or else the last place before it where its sequence can be cut; null if there is none. */
export function whereCuttable<Item extends Piece<Item>>(source: Item, cut: Cut): PrefixMatch<Item> | null {
  const canCut = ({ saved: { onlyCut } }: Item, { cells }: Cut) => onlyCut === null || onlyCut === cells
  let piece = pieceAt(source, cut)
  if (canCut(piece, cut)) return { source, cut }
  while (piece.parent !== null) {
    const { from } = piece.saved
    piece = piece.parent
    if (canCut(piece, from)) return { source: piece, cut: from }
  }
  return null
}
