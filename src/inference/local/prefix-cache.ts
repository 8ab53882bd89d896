import type { Cut, KvCache, Sequence } from './kv-cache.ts'
import type { TokenPath } from './token-path.ts'

interface Entry {
  readonly organisation: string
  readonly path: TokenPath
  readonly sequence: Sequence
}

export interface Match {
  readonly sequence: Sequence
  /** How much of the sequence is the same. */
  readonly cut: Cut
}

/** Shorter common beginnings, such as those that a template gives to all prompts, are faster computed than shared. */
export const SHORTEST_MATCH = 16

/**
 * Sequences of ended work, kept in the KV cache so that a prompt that begins like one of them need not be computed
 * again: the next turn of a chat, most of all. Never shared between organisations: the time to the first token would
 * tell one what another asked.
 */
export class PrefixCache {
  readonly #kv: KvCache
  readonly #maxCells: number
  readonly #maxEntries: number
  /** Least recently used first. */
  readonly #entries = new Set<Entry>()
  /** Lengths of all entries, though they may share cells. */
  #cells = 0

  constructor(kv: KvCache, limits: { readonly cells: number; readonly entries: number }) {
    this.#kv = kv
    this.#maxCells = limits.cells
    this.#maxEntries = limits.entries
  }

  get entries(): number {
    return this.#entries.size
  }

  /** Different cells that the entries hold, those that running work shares included. */
  get usedCells(): number {
    return this.#kv.countCells([...this.#entries].map((entry) => entry.sequence))
  }

  /** The entry with the longest common beginning; it counts as used now. */
  find(organisation: string, path: TokenPath): Match | null {
    let best: { readonly entry: Entry; readonly cut: Cut } | null = null
    for (const entry of this.#entries) {
      if (entry.organisation !== organisation) continue
      const cut = entry.path.commonPart(path)
      if (cut.cells >= SHORTEST_MATCH && cut.cells > (best?.cut.cells ?? 0)) best = { entry, cut }
    }
    if (best === null) return null
    this.#touch(best.entry)
    return { sequence: best.entry.sequence, cut: best.cut }
  }

  /** Takes over a sequence and what it consists of. */
  add(organisation: string, path: TokenPath, sequence: Sequence): void {
    if (path.length < SHORTEST_MATCH || path.length > this.#maxCells) {
      this.#kv.release(sequence)
      return
    }
    for (const entry of this.#entries) {
      if (entry.organisation !== organisation) continue
      const { cells } = entry.path.commonPart(path)
      if (cells === path.length) {
        this.#touch(entry)
        this.#kv.release(sequence)
        return
      }
      if (cells === entry.path.length) this.#remove(entry)
    }
    this.#entries.add({ organisation, path, sequence })
    this.#cells += path.length
    while (this.#cells > this.#maxCells || this.#entries.size > this.#maxEntries) this.evict()
  }

  /** Gives up the least recently used entry. @returns false when there is none. */
  evict(): boolean {
    const [oldest] = this.#entries
    if (oldest === undefined) return false
    this.#remove(oldest)
    return true
  }

  #touch(entry: Entry): void {
    this.#entries.delete(entry)
    this.#entries.add(entry)
  }

  #remove(entry: Entry): void {
    this.#entries.delete(entry)
    this.#cells -= entry.path.length
    this.#kv.release(entry.sequence)
  }
}
