import { FairLru } from './fair-lru.ts'
import { type Cut, type KvCache, type KvSequence, type SavedCells, START, type WantedCells } from './kv-cache.ts'
import { chainOf, type Piece, pieceAt, whereCuttable } from './piece.ts'
import type { PrefixKey } from './prefix-key.ts'
import { longestMatch, type PrefixMatch, SHORTEST_MATCH } from './prefix-match.ts'
import { PrefixTree } from './prefix-tree.ts'

/** A piece of a saved sequence, in memory. */
export interface CachedPrefix extends Piece<CachedPrefix> {
  readonly saved: SavedCells
}

/** The KV cache to copy from or restore to; by default, that of completions. */
export interface CopyOptions {
  readonly kv?: KvCache
  /** Whether numbers depend on how a sequence was computed, so that a copy is only used whole and for the same sequence. */
  readonly isExact?: boolean
}

/** A sequence that is being copied into the cache, piece by piece. */
export interface PrefixCopy extends Required<CopyOptions> {
  readonly organisation: string
  readonly key: PrefixKey
  readonly pieceCells: number
  /** The last piece in the cache so far. */
  last: CachedPrefix | null
  next: Cut
}

/**
 * Size of a piece, unless an image needs more. Copying it takes 5 ms on an idle machine: 1 ms for the copy, the rest for new
 * memory.
 */
const PIECE_BYTES = 8 * 2 ** 20

/**
 * Owns copies of the sequences of ended work, so that a prompt with the same prefix, above all the next turn of a chat, need
 * not recompute it. The copies are outside the KV cache and outlast the retained sequences. Organisations never share them:
 * the time to the first token would reveal the prompts of others.
 *
 * Its size never exceeds its limit in bytes. It evicts the least recently used pieces of the organisation that holds most,
 * the end of a sequence before its beginning. Only `restore` and saving the same cells again count as use.
 */
export class PrefixCache {
  readonly #kv: KvCache
  /** Maximum size in bytes. */
  readonly limitBytes: number
  readonly #copied: (piece: CachedPrefix) => void
  /** Pieces with their sizes in bytes. A piece is always more recent than its children. */
  readonly #pieces = new FairLru<CachedPrefix>()
  readonly #tree = new PrefixTree<CachedPrefix>()
  #cells = 0
  #version = 0

  /** @param copied called for each copied piece, unless it is exact. */
  constructor(kv: KvCache, limitBytes: number, copied: (piece: CachedPrefix) => void = () => {}) {
    this.#kv = kv
    this.limitBytes = limitBytes
    this.#copied = copied
  }

  /** Number of pieces. */
  get entries(): number {
    return this.#pieces.count
  }

  get cells(): number {
    return this.#cells
  }

  get bytes(): number {
    return this.#pieces.size
  }

  /** Changes whenever `find` may return another prefix. */
  get version(): number {
    return this.#version
  }

  /** The longest prefix of the key that is in the cache. Does not count as use. */
  find(organisation: string, key: PrefixKey, isExact = false): PrefixMatch<CachedPrefix> | null {
    return longestMatch(this.#tree.find(shelfOf(organisation, isExact), key), key, (source, cut) => {
      const isWhole = source.parent === null && source.key.length === key.length && cut.cells === key.length
      return isExact && !isWhole ? null : whereCuttable(source, cut)
    })
  }

  has(piece: CachedPrefix): boolean {
    return this.#pieces.has(piece)
  }

  /** Whether all of a key's cells are in the cache. */
  holds(organisation: string, key: PrefixKey): boolean {
    return this.find(organisation, key)?.cut.cells === key.length
  }

  /** Cells that must be free to restore a match: all cells of each piece must fit for a moment. */
  cellsToRestore({ source, cut }: PrefixMatch<CachedPrefix>): number {
    return Math.max(...wantedOf(source, cut).map(({ saved }) => saved.to.cells))
  }

  /** A new sequence with the matching cells. */
  restore({ source, cut }: PrefixMatch<CachedPrefix>, kv = this.#kv): KvSequence {
    this.#touch(source)
    return kv.restore(wantedOf(source, cut))
  }

  /**
   * Prepares the copy of a sequence. Copies nothing yet.
   * @param key what the sequence consists of.
   * @returns null if all of it is in the cache, or if it does not fit.
   */
  begin(
    organisation: string,
    key: PrefixKey,
    sequence: KvSequence,
    { kv = this.#kv, isExact = false }: CopyOptions = {},
  ): PrefixCopy | null {
    if (key.length < SHORTEST_MATCH || this.limitBytes === 0) return null
    const match = this.find(organisation, key, isExact)
    if (match?.cut.cells === key.length) {
      this.#touch(match.source)
      return null
    }
    const continues = match !== null && kv.copiesParts
    const [last, next] = continues ? [pieceAt(match.source, match.cut), match.cut] : [null, START]
    const end = key.cutBefore(key.length)
    const bytes = kv.measure(sequence, next, end)
    if (bytesOf(last) + bytes > this.limitBytes) return null
    const pieceCells =
      kv.copiesParts && !isExact ? Math.max(1, Math.floor((PIECE_BYTES * (end.cells - next.cells)) / bytes)) : end.cells
    return { organisation, key, pieceCells, last, next, kv, isExact }
  }

  /**
   * Copies the next piece of a sequence. Blocks for some milliseconds.
   * @returns whether there is more to copy.
   */
  copyNext(copy: PrefixCopy, sequence: KvSequence): boolean {
    const { organisation, key, last, next, kv, isExact } = copy
    // Without its beginning, the rest is useless.
    if (last !== null && !this.#pieces.has(last)) return false
    const to = key.cutAfter(next.cells + copy.pieceCells)
    if (!this.#makeRoom(kv.measure(sequence, next, to), last)) return false
    const saved = kv.save(sequence, next, to)
    copy.last = { organisation, parent: last, key: key.slice(to.cells)!, saved }
    copy.next = to
    this.#add(copy.last, isExact)
    if (!isExact) this.#copied(copy.last)
    return to.cells < key.length
  }

  /**
   * Adds a piece that was saved elsewhere.
   * @returns null if it does not fit, or if its parent was removed.
   */
  adopt(organisation: string, parent: CachedPrefix | null, key: PrefixKey, saved: SavedCells): CachedPrefix | null {
    if (parent !== null && !this.#pieces.has(parent)) return null
    if (!this.#makeRoom(saved.state.length, parent)) return null
    const piece = { organisation, parent, key, saved }
    this.#add(piece)
    return piece
  }

  /** Removes a piece's whole sequence, from its start, with all its continuations. */
  forget(piece: CachedPrefix): void {
    const [root] = [...chainOf(piece)].reverse()
    for (const other of [...this.#pieces.items()]) {
      if ([...chainOf(other)].at(-1) === root) this.#remove(other)
    }
  }

  /** @param last the end of a sequence that stays. @returns false if `bytes` cannot be freed. */
  #makeRoom(bytes: number, last: CachedPrefix | null): boolean {
    if (bytesOf(last) + bytes > this.limitBytes) return false
    const staying = new Set(chainOf(last))
    while (this.bytes + bytes > this.limitBytes) this.#remove(this.#pieces.next((piece) => staying.has(piece))!)
    return true
  }

  #add(piece: CachedPrefix, isExact = false): void {
    this.#pieces.add(piece, piece.saved.state.length)
    this.#tree.add(shelfOf(piece.organisation, isExact), piece.key, piece)
    this.#touch(piece)
    this.#cells += piece.saved.to.cells - piece.saved.from.cells
    this.#version++
  }

  #remove(piece: CachedPrefix): void {
    this.#pieces.delete(piece)
    this.#tree.delete(piece)
    this.#cells -= piece.saved.to.cells - piece.saved.from.cells
    this.#version++
  }

  /** Marks a piece as used, and then its ancestors, so that they are more recent. */
  #touch(piece: CachedPrefix): void {
    for (const part of chainOf(piece)) this.#pieces.touch(part)
  }
}

/** Exact copies are separate from others. */
function shelfOf(organisation: string, isExact: boolean): string {
  return isExact ? `${organisation}\0exact` : organisation
}

function bytesOf(piece: CachedPrefix | null): number {
  let bytes = 0
  for (const { saved } of chainOf(piece)) bytes += saved.state.length
  return bytes
}

function wantedOf(piece: CachedPrefix, cut: Cut): WantedCells[] {
  const parts: WantedCells[] = []
  let end = cut
  for (const { saved } of chainOf(pieceAt(piece, cut))) {
    parts.unshift({ saved, end })
    end = saved.from
  }
  return parts
}
