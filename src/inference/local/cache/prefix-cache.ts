import { FairLru } from './fair-lru.ts'
import { type Cut, type KvCache, type KvSequence, type SavedCells, START, type WantedCells } from './kv-cache.ts'
import type { PrefixKey } from './prefix-key.ts'
import { longestMatch, type PrefixMatch, SHORTEST_MATCH } from './prefix-match.ts'
import { PrefixTree } from './prefix-tree.ts'

/**
 * A piece of a saved sequence, after the first cells of its parent. Pieces form trees: the turns of a chat follow each
 * other, and prompts that begin alike share their beginning.
 */
export interface CachedPrefix {
  readonly organisation: string
  /** Null at the start of a sequence. */
  readonly parent: CachedPrefix | null
  /** Of all cells from the start to the end of this piece. */
  readonly key: PrefixKey
  readonly saved: SavedCells
}

/** A sequence that is being copied into the cache, piece by piece. */
export interface PrefixCopy {
  readonly organisation: string
  readonly key: PrefixKey
  readonly pieceCells: number
  /** What is in the cache so far. */
  last: CachedPrefix | null
  next: Cut
}

/**
 * Size of a piece, unless an image needs more. Copying it takes 5 ms on an idle machine, because the system must provide
 * new memory; 1 ms of that is the copy itself.
 */
const PIECE_BYTES = 8 * 2 ** 20

/**
 * Owns copies of the sequences of ended work, so that a prompt with the same prefix need not compute it again: the next
 * turn of a chat, most of all. The copies lie outside the KV cache: they outlast the sequences that are retained there.
 * Organisations never share them: the time to the first token would tell one what another asked.
 *
 * What it holds never exceeds its limit in bytes. Of the organisation that holds most, pieces that were not used for
 * longest are removed first, the end of a sequence before its beginning. Only `restore` and saving the same again count
 * as use.
 */
export class PrefixCache {
  readonly #kv: KvCache
  readonly #limitBytes: number
  /** With their sizes in bytes. A piece is always later than those that continue it. */
  readonly #pieces = new FairLru<CachedPrefix>()
  readonly #tree = new PrefixTree<CachedPrefix>()
  #cells = 0
  #version = 0

  constructor(kv: KvCache, limitBytes: number) {
    this.#kv = kv
    this.#limitBytes = limitBytes
  }

  /** Pieces of saved sequences. */
  get entries(): number {
    return this.#pieces.count
  }

  get cells(): number {
    return this.#cells
  }

  get bytes(): number {
    return this.#pieces.size
  }

  /** Another number whenever another prefix may be found. */
  get version(): number {
    return this.#version
  }

  /** The longest prefix of the key that is in the cache. Does not count as use. */
  find(organisation: string, key: PrefixKey): PrefixMatch<CachedPrefix> | null {
    return longestMatch(this.#tree.find(organisation, key), key, (source, cut) => this.#whereCuttable(source, cut))
  }

  /** The match itself, or the end of the piece before it where a piece can only be used whole. */
  #whereCuttable(source: CachedPrefix, cut: Cut): PrefixMatch<CachedPrefix> | null {
    const piece = pieceAt(source, cut)
    if (this.#kv.canCut(piece.saved.to, cut)) return { source, cut }
    // Where a piece continues another one, that one was cut when it was saved, so it can be.
    return piece.parent === null ? null : { source: piece.parent, cut: piece.saved.from }
  }

  /** Whether all of a key's cells are in the cache. */
  holds(organisation: string, key: PrefixKey): boolean {
    return this.find(organisation, key)?.cut.cells === key.length
  }

  /** Cells that must be free to restore a match: all of each piece must fit, if only for a moment. */
  cellsToRestore({ source, cut }: PrefixMatch<CachedPrefix>): number {
    return Math.max(...wantedOf(source, cut).map(({ saved }) => saved.to.cells))
  }

  /** A new sequence with the matching cells. */
  restore({ source, cut }: PrefixMatch<CachedPrefix>): KvSequence {
    this.#touch(source)
    return this.#kv.restore(wantedOf(source, cut))
  }

  /**
   * Begins to copy a sequence. Copies nothing yet.
   * @param key what the sequence consists of.
   * @returns null when all of it is in the cache, or when it does not fit.
   */
  begin(organisation: string, key: PrefixKey, sequence: KvSequence): PrefixCopy | null {
    if (key.length < SHORTEST_MATCH || this.#limitBytes === 0) return null
    const match = this.find(organisation, key)
    if (match?.cut.cells === key.length) {
      this.#touch(match.source)
      return null
    }
    const continues = match !== null && this.#kv.copiesParts
    const [last, next] = continues ? [pieceAt(match.source, match.cut), match.cut] : [null, START]
    const end = key.cutBefore(key.length)
    const bytes = this.#kv.measure(sequence, next, end)
    if (bytesOf(last) + bytes > this.#limitBytes) return null
    const pieceCells = this.#kv.copiesParts
      ? Math.max(1, Math.floor((PIECE_BYTES * (end.cells - next.cells)) / bytes))
      : end.cells
    return { organisation, key, pieceCells, last, next }
  }

  /**
   * Copies the next piece of a sequence. Blocks for some milliseconds.
   * @returns whether there is more to copy.
   */
  copyNext(copy: PrefixCopy, sequence: KvSequence): boolean {
    const { organisation, key, last, next } = copy
    // Without its beginning, the rest is of no use.
    if (last !== null && !this.#pieces.has(last)) return false
    const to = key.cutAfter(next.cells + copy.pieceCells)
    if (!this.#makeRoom(this.#kv.measure(sequence, next, to), last)) return false
    const saved = this.#kv.save(sequence, next, to)
    copy.last = { organisation, parent: last, key: key.slice(to.cells)!, saved }
    copy.next = to
    this.#add(copy.last)
    return to.cells < key.length
  }

  /** @param last the end of a sequence that stays. @returns false when there cannot be so much room. */
  #makeRoom(bytes: number, last: CachedPrefix | null): boolean {
    if (bytesOf(last) + bytes > this.#limitBytes) return false
    const staying = new Set(chainOf(last))
    while (this.bytes + bytes > this.#limitBytes) this.#remove(this.#pieces.next((piece) => staying.has(piece))!)
    return true
  }

  #add(piece: CachedPrefix): void {
    this.#pieces.add(piece, piece.saved.state.length)
    this.#tree.add(piece.organisation, piece.key, piece)
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

  /** Makes a piece the latest, and each of those before it later still. */
  #touch(piece: CachedPrefix): void {
    for (const part of chainOf(piece)) this.#pieces.touch(part)
  }
}

/** A piece and those before it, up to the start of the sequence. */
function* chainOf(piece: CachedPrefix | null): Generator<CachedPrefix> {
  for (let part = piece; part !== null; part = part.parent) yield part
}

function bytesOf(piece: CachedPrefix | null): number {
  let bytes = 0
  for (const { saved } of chainOf(piece)) bytes += saved.state.length
  return bytes
}

/** The first piece of a chain, from its end, that has cells before the cut. */
function pieceAt(piece: CachedPrefix, cut: Cut): CachedPrefix {
  for (const part of chainOf(piece)) if (part.saved.from.cells < cut.cells) return part
  return piece
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
