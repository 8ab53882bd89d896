import type { KvCache, SavedCells } from '../cache/kv-cache.ts'
import { chainOf, pieceAt, whereCuttable } from '../cache/piece.ts'
import type { CachedPrefix, PrefixCache } from '../cache/prefix-cache.ts'
import type { PrefixKey } from '../cache/prefix-key.ts'
import { longestMatch, type PrefixMatch, SHORTEST_MATCH } from '../cache/prefix-match.ts'
import { PrefixTree } from '../cache/prefix-tree.ts'
import { hashState, nameOf } from './piece-file.ts'
import type { PieceStore, StoredHead } from './piece-store.ts'
import { bytesOf, keysOf, lackingOf, type StoredPiece, spared } from './stored-piece.ts'

/** What is known of an organisation's pieces. */
interface Shelf {
  /** Of the folder, when it was last read. */
  version: string | null
  readonly pieces: Map<string, StoredPiece>
  readonly tree: PrefixTree<StoredPiece>
  /** While the folder is being read. */
  refreshing: Promise<void> | null
}

/** Files are marked as used so long after that, in ms: the pieces of one sequence together. */
const TOUCH_MS = 2000
/** A prompt waits no longer to learn what is on disk, in ms. */
const REFRESH_MS = 1000

/** Pieces whose states are being read. */
export interface DiskRead {
  /** From the start of the sequence on. */
  readonly parts: readonly StoredPart[]
  /** After so long, computing is faster; in ms. */
  readonly limitMs: number
}

interface StoredPart {
  readonly piece: StoredPiece
  /** Null when the file is missing or damaged. */
  readonly saved: Promise<SavedCells | null>
}

export interface DiskPrefixesOptions {
  readonly kv: Pick<KvCache, 'canCut'>
  /** Opened already, or about to be. Where that fails, nothing is kept. */
  readonly store: PieceStore
  readonly opening: Promise<void>
  /** Time that the cells of a key take to compute, from one to another; in ms. */
  readonly costOf: (key: PrefixKey, from: number, to: number) => number
  /** Whether everything is kept and read, however little time that saves. */
  readonly keepsAll?: boolean
}

/** What is written together must have taken so long to compute, in ms. Texts are asked about again more rarely than images. */
const LEAST_MS = { withMedia: 250, textOnly: 2000 }
/** Computing must take so many times longer than reading. */
const WORTHWHILE = 2
/** Larger states are not written: one call could not read them. */
const MOST_STATE_BYTES = 2 ** 30
/** Before anything was read: half of what a plain SSD reads, in bytes per ms. */
const FIRST_SPEED = 200_000
/** Smaller reads say nothing about the speed. */
const MEASURED_BYTES = 2 ** 20
/** What is not read because the disk seemed slow makes it seem a little faster, or one slow moment would count for ever. */
const FORGIVENESS = 1.05

/**
 * Keeps pieces of the prefix cache on disk, so that a process that starts later need not compute them. Writes those that
 * took long to compute, and finds them for prompts that begin alike. It owns what it knows of the files; several processes
 * may use the same ones. Files are read and written on other threads. Errors of the file system cost only the copy.
 */
export class DiskPrefixes {
  readonly #options: DiskPrefixesOptions
  readonly #shelves = new Map<string, Shelf>()
  /** Of the pieces in memory, those that were written, or are about to be. */
  readonly #names = new WeakMap<CachedPrefix, string>()
  /** Names of those that wait, with their organisation. */
  readonly #waiting = new Set<string>()
  readonly #reading = new Map<string, Promise<SavedCells | null>>()
  /** Used lately, of each sequence the last piece. */
  readonly #used = new Set<CachedPrefix>()
  #timer: NodeJS.Timeout | null = null
  #writing: Promise<void> = Promise.resolve()
  #bytesPerMs = FIRST_SPEED
  #hits = 0

  constructor(options: DiskPrefixesOptions) {
    this.#options = options
    options.opening.catch(() => {})
  }

  get stats(): { readonly diskBytes: number; readonly diskSequences: number; readonly diskHits: number } {
    const { bytes, files } = this.#options.store.usage
    return { diskBytes: bytes, diskSequences: files, diskHits: this.#hits }
  }

  /** Writes a piece, and those that it continues, once they have taken long enough to compute. */
  offer(piece: CachedPrefix, cache: PrefixCache): void {
    this.touch(piece)
    const unsaved: CachedPrefix[] = []
    for (const part of chainOf(piece)) {
      if (this.#isSaved(part)) break
      unsaved.unshift(part)
    }
    if (unsaved.some(({ saved }) => saved.state.length > MOST_STATE_BYTES)) return
    if (!this.#options.keepsAll && !this.#isWorthKeeping(unsaved)) return
    for (const part of unsaved) {
      const parent = part.parent === null ? null : this.#names.get(part.parent)!
      const name = nameOf(part.key, part.saved, parent)
      this.#names.set(part, name)
      this.#waiting.add(placeOf(part.organisation, name))
      this.#writing = this.#writing.then(() => this.#write(part, name, parent, cache))
    }
  }

  /** A piece in memory was used: what is on disk of it stays for longer. */
  touch(piece: CachedPrefix): void {
    if (piece.parent !== null) this.#used.delete(piece.parent)
    this.#used.add(piece)
    this.#timer ??= setTimeout(() => this.#touchUsed(), TOUCH_MS).unref()
  }

  #touchUsed(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    const used = [...this.#used]
    this.#used.clear()
    this.#writing = this.#writing.then(async () => {
      for (const piece of used) {
        // The end of a sequence is to go before its beginning.
        const names = [...chainOf(piece)].filter((part) => this.#isSaved(part)).map((part) => this.#names.get(part)!)
        if (names.length > 0) await this.#options.store.touch(piece.organisation, names).catch(() => {})
      }
    })
  }

  /** Looks at what there is of an organisation: other processes may have written or removed some of it. Never rejects. */
  async refresh(organisation: string): Promise<void> {
    const shelf = this.#shelfOf(organisation)
    shelf.refreshing ??= this.#refresh(organisation, shelf)
      // Then nothing more is found.
      .catch(() => {})
      .finally(() => {
        shelf.refreshing = null
      })
    // A disk may hang.
    let timer: NodeJS.Timeout | undefined
    const tooLate = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, REFRESH_MS)
    })
    await Promise.race([shelf.refreshing, tooLate])
    clearTimeout(timer)
  }

  /**
   * Begins to read what is on disk of a prompt, if that is faster than to compute it. Call `refresh` first.
   * @param cached cells of it that the prefix cache has.
   * @param found cells of it that are found in memory at all.
   * @param mostBytes of states that may be read.
   */
  begin(
    { organisation, key }: { readonly organisation: string; readonly key: PrefixKey },
    cached: number,
    found: number,
    mostBytes: number,
  ): DiskRead | null {
    const match = this.#find(organisation, key)
    if (match === null || match.cut.cells < found + SHORTEST_MATCH) return null
    const chain = [...chainOf(pieceAt(match.source, match.cut))].reverse()
    if (bytesOf(chain) > mostBytes) return null
    const wanted = chain.filter(({ saved }) => saved.to.cells > cached)
    const sparedMs = wanted.reduce((sum, piece) => sum + spared(piece, found, match.cut.cells), 0)
    const limitMs = this.#options.keepsAll ? Number.POSITIVE_INFINITY : sparedMs
    if (limitMs < (WORTHWHILE * bytesOf(wanted)) / this.#bytesPerMs) {
      this.#bytesPerMs *= FORGIVENESS
      return null
    }
    const started = performance.now()
    const parts = wanted.map((piece) => ({ piece, saved: this.#read(piece) }))
    void Promise.all(parts.map(({ saved }) => saved)).then(() =>
      this.#learn(bytesOf(wanted), performance.now() - started),
    )
    return { parts, limitMs }
  }

  /** A piece that was read is in the prefix cache now. */
  adopted(piece: CachedPrefix, { name }: StoredPiece): void {
    this.#names.set(piece, name)
  }

  /** A prompt has got a piece from disk. */
  countHit(): void {
    this.#hits++
  }

  /** Removes a piece that turned out to be useless. */
  remove(piece: CachedPrefix): void {
    for (const part of chainOf(piece)) {
      const name = this.#names.get(part)
      if (name !== undefined) void this.#drop(part.organisation, name)
    }
  }

  /** Waits until all that waits is written. */
  async flush(): Promise<void> {
    await this.#writing
    this.#touchUsed()
    await this.#writing
  }

  #isSaved(piece: CachedPrefix): boolean {
    const name = this.#names.get(piece)
    if (name === undefined) return false
    const isKnown = this.#shelves.get(piece.organisation)?.pieces.has(name) === true
    return isKnown || this.#waiting.has(placeOf(piece.organisation, name))
  }

  #isWorthKeeping(unsaved: readonly CachedPrefix[]): boolean {
    const ms = unsaved.reduce((sum, part) => sum + this.#costOf(part), 0)
    const bytes = unsaved.reduce((sum, { saved }) => sum + saved.state.length, 0)
    const hasMedia = unsaved.some(({ key, saved }) => key.mediaWithin(saved.from.cells, saved.to.cells).length > 0)
    if (ms < (hasMedia ? LEAST_MS.withMedia : LEAST_MS.textOnly)) return false
    return ms >= (WORTHWHILE * bytes) / this.#bytesPerMs
  }

  #costOf({ key, saved }: CachedPrefix): number {
    return this.#options.costOf(key, saved.from.cells, saved.to.cells)
  }

  async #write(piece: CachedPrefix, name: string, parent: string | null, cache: PrefixCache): Promise<void> {
    const { organisation, key, saved } = piece
    let isWritten = false
    try {
      // Nothing is kept in memory only to be written.
      if (!cache.has(piece)) return
      await this.refresh(organisation)
      const { pieces } = this.#shelfOf(organisation)
      // Another process has written it, or an earlier one.
      isWritten = pieces.has(name)
      // Nothing is of use without what it continues.
      const before = parent === null ? null : pieces.get(parent)
      if (isWritten || before === undefined) return
      const { store } = this.#options
      const { from, to, state } = saved
      const about = {
        fingerprint: store.fingerprint,
        parent,
        from,
        to,
        media: key.mediaWithin(from.cells, to.cells),
        costMs: Math.round(this.#costOf(piece)),
        stateBytes: state.length,
        stateHash: await hashState(state),
      }
      const symbols = key.symbols.subarray(from.cells, to.cells)
      const headBytes = await store.write(organisation, name, { ...about, symbols }, state)
      if (headBytes === null) return
      this.#add({ ...about, organisation, name, parent: before, key, saved: { from, to }, headBytes })
      isWritten = true
    } catch {
      // A disk that is full or broken.
    } finally {
      this.#waiting.delete(placeOf(organisation, name))
      // It is offered again with what continues it.
      if (!isWritten) this.#names.delete(piece)
    }
  }

  #find(organisation: string, key: PrefixKey): PrefixMatch<StoredPiece> | null {
    const { tree } = this.#shelfOf(organisation)
    return longestMatch(tree.find(organisation, key), key, (source, cut) =>
      whereCuttable(this.#options.kv, source, cut),
    )
  }

  /** Reads a state once, also for several prompts that want it at the same time. */
  #read(piece: StoredPiece): Promise<SavedCells | null> {
    const { organisation, name, saved } = piece
    const place = placeOf(organisation, name)
    let reading = this.#reading.get(place)
    if (reading === undefined) {
      reading = this.#options.store
        .readState(organisation, name, piece)
        .catch(() => null)
        .then((state) => (state === null ? null : { ...saved, state }))
        .finally(() => this.#reading.delete(place))
      void reading.then((read) => (read === null ? this.#drop(organisation, name) : undefined))
      this.#reading.set(place, reading)
    }
    return reading
  }

  #learn(bytes: number, ms: number): void {
    if (bytes >= MEASURED_BYTES && ms > 0) this.#bytesPerMs = (this.#bytesPerMs + bytes / ms) / 2
  }

  async #refresh(organisation: string, shelf: Shelf): Promise<void> {
    const { store, opening } = this.#options
    await opening
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

  /** Adds pieces after those that they continue. Those that lack their beginning are removed. */
  #addAll(organisation: string, heads: ReadonlyMap<string, StoredHead>): void {
    const { pieces } = this.#shelfOf(organisation)
    // The keys of a sequence's pieces share the memory of its last one.
    const deepestFirst = [...heads].sort(([, a], [, b]) => b.to.cells - a.to.cells)
    for (const [name] of deepestFirst) {
      if (pieces.has(name)) continue
      const lacking = lackingOf(name, heads, pieces)
      const keys = lacking === null ? null : keysOf(lacking.heads, lacking.after)
      if (lacking === null || keys === null) {
        void this.#drop(organisation, name)
        continue
      }
      let parent = lacking.after
      for (const [index, { name, head }] of lacking.heads.entries()) {
        const { from, to, symbols: _symbols, media: _media, ...about } = head
        const piece: StoredPiece = { ...about, organisation, name, parent, key: keys[index]!, saved: { from, to } }
        this.#add(piece)
        parent = piece
      }
    }
  }

  #add(piece: StoredPiece): void {
    const { pieces, tree } = this.#shelfOf(piece.organisation)
    if (pieces.has(piece.name)) return
    pieces.set(piece.name, piece)
    tree.add(piece.organisation, piece.key, piece)
  }

  /** Forgets a piece and those that continue it. */
  #forget(piece: StoredPiece): void {
    const { pieces, tree } = this.#shelfOf(piece.organisation)
    for (const other of [...pieces.values()]) {
      if (![...chainOf(other)].includes(piece)) continue
      pieces.delete(other.name)
      tree.delete(other)
    }
  }

  async #drop(organisation: string, name: string): Promise<void> {
    const piece = this.#shelfOf(organisation).pieces.get(name)
    if (piece !== undefined) this.#forget(piece)
    await this.#options.store.remove(organisation, name).catch(() => {})
  }

  #shelfOf(organisation: string): Shelf {
    const shelf: Shelf = this.#shelves.get(organisation) ?? {
      version: null,
      pieces: new Map(),
      tree: new PrefixTree(),
      refreshing: null,
    }
    this.#shelves.set(organisation, shelf)
    return shelf
  }
}

function placeOf(organisation: string, name: string): string {
  return `${organisation} ${name}`
}
