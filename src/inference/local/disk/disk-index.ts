import { getOrMake } from '../../../lib/get-or-make.ts'
import { withTimeout } from '../../../lib/with-timeout.ts'
import { chainOf, whereCuttable } from '../cache/piece.ts'
import type { PrefixKey } from '../cache/prefix-key.ts'
import { longestMatch, type PrefixMatch } from '../cache/prefix-match.ts'
import { PrefixTree } from '../cache/prefix-tree.ts'
import type { PieceStore, StoredHead } from './piece-store.ts'
import { keysOf, lackingOf, type StoredPiece } from './stored-piece.ts'

/** The known pieces of an organisation. */
interface Shelf {
  /** Version of the folder when it was last read. */
  version: string | null
  readonly pieces: Map<string, StoredPiece>
  readonly tree: PrefixTree<StoredPiece>
  /** While the folder is being read. */
  refreshing: Promise<void> | null
}

/** Maximum time that a prompt waits for the list of files, in ms. */
const REFRESH_MS = 1000

/** An index of the pieces on disk, which other processes may change. */
export class DiskIndex {
  readonly #store: PieceStore
  readonly #opening: Promise<void>
  readonly #shelves = new Map<string, Shelf>()

  /** @param opening ends when the store is open. If that fails, no pieces are found. */
  constructor(store: PieceStore, opening: Promise<void>) {
    this.#store = store
    this.#opening = opening
    opening.catch(() => {})
  }

  /** The known pieces of an organisation, by name. */
  piecesOf(organisation: string): ReadonlyMap<string, StoredPiece> {
    return this.#shelfOf(organisation).pieces
  }

  /** Reads the list of an organisation's files, which other processes may have changed. Never rejects. */
  async refresh(organisation: string): Promise<void> {
    const shelf = this.#shelfOf(organisation)
    shelf.refreshing ??= this.#refresh(organisation, shelf)
      // Then no new pieces are found.
      .catch(() => {})
      .finally(() => {
        shelf.refreshing = null
      })
    // A disk may hang.
    await withTimeout(REFRESH_MS, shelf.refreshing, undefined)
  }

  find(organisation: string, key: PrefixKey): PrefixMatch<StoredPiece> | null {
    const { tree } = this.#shelfOf(organisation)
    return longestMatch(tree.find(organisation, key), key, (source, cut) => whereCuttable(source, cut))
  }

  async #refresh(organisation: string, shelf: Shelf): Promise<void> {
    const store = this.#store
    await this.#opening
    const listed = await store.list(organisation, shelf.version)
    if (listed === null) return
    const names = new Set(listed.names)
    for (const piece of [...shelf.pieces.values()]) if (!names.has(piece.name)) this.#forget(piece)
    const unknown = listed.names.filter((name) => !shelf.pieces.has(name))
    const heads = await Promise.all(
      unknown.map(async (name) => ({ name, head: await store.readHead(organisation, name) })),
    )
    this.#addAll(
      organisation,
      new Map(heads.flatMap(({ name, head }) => (head === null ? [] : [[name, head] as const]))),
    )
    shelf.version = listed.version
  }

  /** Adds pieces after their parents. Pieces without a parent are removed. */
  #addAll(organisation: string, heads: ReadonlyMap<string, StoredHead>): void {
    const { pieces } = this.#shelfOf(organisation)
    // The keys of a sequence's pieces share the memory of the last one's key.
    const deepestFirst = [...heads].sort(([, a], [, b]) => b.to.cells - a.to.cells)
    for (const [name] of deepestFirst) {
      if (pieces.has(name)) continue
      const lacking = lackingOf(name, heads, pieces)
      const keys = lacking === null ? null : keysOf(lacking.heads, lacking.after)
      if (lacking === null || keys === null) {
        void this.drop(organisation, name)
        continue
      }
      let parent = lacking.after
      for (const [index, { name, head }] of lacking.heads.entries()) {
        const { from, to, onlyCut, symbols: _symbols, media: _media, ...about } = head
        const saved = { from, to, onlyCut }
        const piece: StoredPiece = { ...about, organisation, name, parent, key: keys[index]!, saved }
        this.add(piece)
        parent = piece
      }
    }
  }

  add(piece: StoredPiece): void {
    const { pieces, tree } = this.#shelfOf(piece.organisation)
    if (pieces.has(piece.name)) return
    pieces.set(piece.name, piece)
    tree.add(piece.organisation, piece.key, piece)
  }

  /** Forgets a piece and its descendants. */
  #forget(piece: StoredPiece): void {
    const { pieces, tree } = this.#shelfOf(piece.organisation)
    for (const other of [...pieces.values()]) {
      if (![...chainOf(other)].includes(piece)) continue
      pieces.delete(other.name)
      tree.delete(other)
    }
  }

  /** Forgets a piece and its descendants, and removes its file. */
  async drop(organisation: string, name: string): Promise<void> {
    const piece = this.#shelfOf(organisation).pieces.get(name)
    if (piece !== undefined) this.#forget(piece)
    await this.#store.remove(organisation, name).catch(() => {})
  }

  #shelfOf(organisation: string): Shelf {
    return getOrMake(this.#shelves, organisation, () => ({
      version: null,
      pieces: new Map(),
      tree: new PrefixTree(),
      refreshing: null,
    }))
  }
}
