import type { Piece } from '../cache/piece.ts'
import { PrefixKey } from '../cache/prefix-key.ts'
import { nameOf } from './piece-file.ts'
import type { StoredHead } from './piece-store.ts'

/** A piece of a saved sequence, on disk. */
export interface StoredPiece extends Piece<StoredPiece> {
  readonly name: string
  readonly costMs: number
  readonly headBytes: number
  readonly stateBytes: number
  readonly stateHash: string
}

export interface NamedHead {
  readonly name: string
  readonly head: StoredHead
}

/** The ancestors that must be added before a piece, in order from the start of the sequence; null if some are missing. */
export function lackingOf(
  name: string,
  heads: ReadonlyMap<string, StoredHead>,
  pieces: ReadonlyMap<string, StoredPiece>,
): { readonly after: StoredPiece | null; readonly heads: readonly NamedHead[] } | null {
  const lacking: NamedHead[] = []
  for (let next: string | null = name; next !== null; ) {
    const after: StoredPiece | undefined = pieces.get(next)
    if (after !== undefined) return { after, heads: lacking.reverse() }
    const head: StoredHead | undefined = heads.get(next)
    if (head === undefined || lacking.length === heads.size) return null
    lacking.push({ name: next, head })
    next = head.parent
  }
  return { after: null, heads: lacking.reverse() }
}

/** Keys of consecutive pieces; null if they are not consecutive, or if the name of one does not match its content. */
export function keysOf(heads: readonly NamedHead[], after: StoredPiece | null): PrefixKey[] | null {
  const keys: PrefixKey[] = []
  let before = after?.key ?? null
  for (const { name, head } of heads) {
    const { from, symbols, media, parent } = head
    const start = from.cells === 0 ? null : (before?.slice(from.cells) ?? null)
    if ((start?.length ?? 0) !== from.cells) return null
    before = PrefixKey.continued(start, symbols, media)
    if (nameOf(before, head, parent) !== name) return null
    keys.push(before)
  }
  for (let index = heads.length - 2; index >= 0; index--) {
    const { to } = heads[index]!.head
    if (heads[index + 1]!.head.from.cells === to.cells) keys[index] = keys[index + 1]!.slice(to.cells) ?? keys[index]!
  }
  return keys
}

export function bytesOf(pieces: readonly StoredPiece[]): number {
  return pieces.reduce((sum, { stateBytes }) => sum + stateBytes, 0)
}

/** Time to compute the cells of a piece from `start` to `end`, in ms. */
export function spared({ saved: { from, to }, costMs }: StoredPiece, start: number, end: number): number {
  const cells = Math.max(0, Math.min(end, to.cells) - Math.max(start, from.cells))
  return (costMs * cells) / Math.max(1, to.cells - from.cells)
}
