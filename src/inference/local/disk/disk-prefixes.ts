import { getOrMake } from '../../../lib/get-or-make.ts'
import type { SavedCells } from '../cache/kv-cache.ts'
import { chainOf, pieceAt } from '../cache/piece.ts'
import type { CachedPrefix, PrefixCache } from '../cache/prefix-cache.ts'
import type { PrefixKey } from '../cache/prefix-key.ts'
import { SHORTEST_MATCH } from '../cache/prefix-match.ts'
import { DiskIndex } from './disk-index.ts'
import { hashState, nameOf } from './piece-file.ts'
import type { PieceStore } from './piece-store.ts'
import { bytesOf, type StoredPiece, spared } from './stored-piece.ts'

/** Delay before files are marked as used, in ms, so that the pieces of one sequence are marked together. */
const TOUCH_MS = 2000

/** Pieces whose states are being read. */
export interface DiskRead {
  /** In order, from the start of the sequence. */
  readonly parts: readonly StoredPart[]
  /** Time after which prefill is faster, in ms. */
  readonly limitMs: number
}

interface StoredPart {
  readonly piece: StoredPiece
  /** Null if the file is missing or damaged. */
  readonly saved: Promise<SavedCells | null>
}

export interface DiskPrefixesOptions {
  /** Opened already, or being opened. If that fails, nothing is stored. */
  readonly store: PieceStore
  readonly opening: Promise<void>
  /** Prefill time of the cells `from` to `to` of a key, in ms. */
  readonly costOf: (key: PrefixKey, from: number, to: number) => number
  /** Whether all pieces are written and read, even if that saves little time. */
  readonly keepsAll?: boolean
}

/** Minimum compute time of pieces that are written together, in ms. Texts are reused more rarely than images. */
const LEAST_MS = { withMedia: 250, textOnly: 2000 }
/** Computing must take at least this many times as long as reading. */
const WORTHWHILE = 2
/** Larger states are not written: one call could not read them. */
const MOST_STATE_BYTES = 2 ** 30
/** Assumed speed before the first read, in bytes per ms: half that of a plain SSD. */
const FIRST_SPEED = 200_000
/** Minimum bytes of a read that measures the speed. */
const MEASURED_BYTES = 2 ** 20
/**
 * Factor on the estimated speed for each read that is skipped because the disk seems slow. Otherwise one slow moment would
 * count for ever.
 */
const FORGIVENESS = 1.05

/**
 * Keeps pieces of the prefix cache on disk, so that a later process need not recompute them. It writes those that took long
 * to compute, and finds them for prompts with the same prefix. Several processes may share the
 * files, which other threads read and write. An error of the file system only loses the copy.
 */
export class DiskPrefixes {
  readonly #options: DiskPrefixesOptions
  readonly #index: DiskIndex
  /** Names of the pieces in memory that were written or will be. */
  readonly #names = new WeakMap<CachedPrefix, string>()
  /** Names of pieces that wait to be written, with their organisation. */
  readonly #waiting = new Set<string>()
  readonly #reading = new Map<string, Promise<SavedCells | null>>()
  /** The last piece of each recently used sequence. */
  readonly #used = new Set<CachedPrefix>()
  #timer: NodeJS.Timeout | null = null
  #writing: Promise<void> = Promise.resolve()
  #bytesPerMs = FIRST_SPEED
  #hits = 0

  constructor(options: DiskPrefixesOptions) {
    this.#options = options
    this.#index = new DiskIndex(options.store, options.opening)
  }

  get stats(): { readonly diskBytes: number; readonly diskSequences: number; readonly diskHits: number } {
    const { bytes, files } = this.#options.store.usage
    return { diskBytes: bytes, diskSequences: files, diskHits: this.#hits }
  }

  /** Writes a piece and its ancestors, once they have taken long enough to compute. */
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

  /** Marks a piece in memory as used, so that its file stays longer. */
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
        // The end of a sequence is removed before its beginning.
        const names = [...chainOf(piece)].filter((part) => this.#isSaved(part)).map((part) => this.#names.get(part)!)
        if (names.length > 0) await this.#options.store.touch(piece.organisation, names).catch(() => {})
      }
    })
  }

  /** Reads the list of an organisation's files, which other processes may have changed. Never rejects. */
  refresh(organisation: string): Promise<void> {
    return this.#index.refresh(organisation)
  }

  /**
   * Begins to read a prompt's prefix from disk, if that is faster than prefill. Call `refresh` first.
   * @param cached cells of it in the prefix cache.
   * @param found cells of it anywhere in memory.
   * @param mostBytes maximum bytes of states to read.
   */
  begin(
    { organisation, key }: { readonly organisation: string; readonly key: PrefixKey },
    cached: number,
    found: number,
    mostBytes: number,
  ): DiskRead | null {
    const match = this.#index.find(organisation, key)
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

  /** Records that a piece from disk is in the prefix cache now. */
  adopted(piece: CachedPrefix, { name }: StoredPiece): void {
    this.#names.set(piece, name)
  }

  /** Counts a prompt that reused a piece from disk. */
  countHit(): void {
    this.#hits++
  }

  /** Removes a piece that turned out to be useless. */
  remove(piece: CachedPrefix): void {
    for (const part of chainOf(piece)) {
      const name = this.#names.get(part)
      if (name !== undefined) void this.#index.drop(part.organisation, name)
    }
  }

  /** Waits until all queued pieces are written. */
  async flush(): Promise<void> {
    await this.#writing
    this.#touchUsed()
    await this.#writing
  }

  #isSaved(piece: CachedPrefix): boolean {
    const name = this.#names.get(piece)
    if (name === undefined) return false
    const isKnown = this.#index.piecesOf(piece.organisation).has(name)
    return isKnown || this.#waiting.has(placeOf(piece.organisation, name))
  }

  #isWorthKeeping(unsaved: readonly CachedPrefix[]): boolean {
    const ms = unsaved.reduce((sum, part) => sum + this.#costOf(part), 0)
    const bytes = unsaved.reduce((sum, { saved }) => sum + saved.state.length, 0)
    // A single cell is text that an adapter computes.
    const hasMedia = unsaved.some(({ key, saved: { from, to } }) =>
      key.mediaWithin(from.cells, to.cells).some(({ cells }) => cells > 1),
    )
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
      // No piece is kept in memory only to be written.
      if (!cache.has(piece)) return
      await this.#index.refresh(organisation)
      const pieces = this.#index.piecesOf(organisation)
      // This or another process may have written it before.
      isWritten = pieces.has(name)
      // A piece is useless without its parent.
      const before = parent === null ? null : pieces.get(parent)
      if (isWritten || before === undefined) return
      const { store } = this.#options
      const { state, ...range } = saved
      const { from, to } = range
      const about = {
        fingerprint: store.fingerprint,
        parent,
        ...range,
        media: key.mediaWithin(from.cells, to.cells),
        costMs: Math.round(this.#costOf(piece)),
        stateBytes: state.length,
        stateHash: await hashState(state),
      }
      const symbols = key.symbols.subarray(from.cells, to.cells)
      const headBytes = await store.write(organisation, name, { ...about, symbols }, state)
      if (headBytes === null) return
      this.#index.add({ ...about, organisation, name, parent: before, key, saved: range, headBytes })
      isWritten = true
    } catch {
      // The disk is full or broken.
    } finally {
      this.#waiting.delete(placeOf(organisation, name))
      // It is offered again with its next child.
      if (!isWritten) this.#names.delete(piece)
    }
  }

  /** Reads a state once, even if several prompts want it at the same time. */
  #read(piece: StoredPiece): Promise<SavedCells | null> {
    const { organisation, name, saved } = piece
    const place = placeOf(organisation, name)
    return getOrMake(this.#reading, place, () => {
      const reading = this.#options.store
        .readState(organisation, name, piece)
        .catch(() => null)
        .then((state) => (state === null ? null : { ...saved, state }))
        .finally(() => this.#reading.delete(place))
      void reading.then((read) => (read === null ? this.#index.drop(organisation, name) : undefined))
      return reading
    })
  }

  #learn(bytes: number, ms: number): void {
    if (bytes >= MEASURED_BYTES && ms > 0) this.#bytesPerMs = (this.#bytesPerMs + bytes / ms) / 2
  }
}

function placeOf(organisation: string, name: string): string {
  return `${organisation} ${name}`
}
