import type { Cut, KvCache, SavedSequence, Sequence } from './kv-cache.ts'
import type { PrefixKey } from './prefix-key.ts'

interface Entry {
  readonly organisation: string
  readonly path: PrefixKey
  readonly saved: SavedSequence
}

/** How much of a prompt there is already, and where. */
export interface Match {
  readonly source: Sequence | SavedSequence
  /** How much of the source is the same. */
  readonly cut: Cut
}

/** Shorter common beginnings, such as those that a template gives to all prompts, are faster computed than shared. */
export const SHORTEST_MATCH = 16

/**
 * Sequences of ended work, so that a prompt that begins like one of them need not be computed again: the next turn of a
 * chat, most of all. They are copies, in memory of their own: attention passes over every cell in use, if only to skip
 * it, and copying is faster than that within a few steps. Never shared between organisations: the time to the first
 * token would tell one what another asked.
 */
export class PrefixCache {
  readonly #kv: KvCache
  readonly #limits: { readonly cells: number; readonly bytes: number }
  /** Least recently used first. */
  readonly #entries = new Set<Entry>()
  #cells = 0
  #bytes = 0

  constructor(kv: KvCache, limits: { readonly cells: number; readonly bytes: number }) {
    this.#kv = kv
    this.#limits = limits
  }

  get entries(): number {
    return this.#entries.size
  }

  get cells(): number {
    return this.#cells
  }

  /** The entry with the longest common beginning; it counts as used now. */
  find(organisation: string, path: PrefixKey): Match | null {
    let best: { readonly entry: Entry; readonly cut: Cut } | null = null
    for (const entry of this.#entries) {
      if (entry.organisation !== organisation) continue
      const cut = entry.path.commonPart(path)
      if (cut.cells >= SHORTEST_MATCH && cut.cells > (best?.cut.cells ?? 0)) best = { entry, cut }
    }
    if (best === null) return null
    this.#touch(best.entry)
    return { source: best.entry.saved, cut: best.cut }
  }

  /** Copies a sequence, unless all of it is there already. @param path what it consists of. */
  add(organisation: string, path: PrefixKey, sequence: Sequence): void {
    if (path.length < SHORTEST_MATCH || path.length > this.#limits.cells) return
    for (const entry of this.#entries) {
      if (entry.organisation !== organisation) continue
      const { cells } = entry.path.commonPart(path)
      if (cells === path.length) {
        this.#touch(entry)
        return
      }
      if (cells === entry.path.length) this.#remove(entry)
    }
    const saved = this.#kv.save(sequence)
    this.#entries.add({ organisation, path, saved })
    this.#cells += saved.cells
    this.#bytes += saved.state.length
    for (const oldest of this.#entries) {
      if (this.#cells <= this.#limits.cells && this.#bytes <= this.#limits.bytes) break
      this.#remove(oldest)
    }
  }

  #touch(entry: Entry): void {
    this.#entries.delete(entry)
    this.#entries.add(entry)
  }

  #remove(entry: Entry): void {
    this.#entries.delete(entry)
    this.#cells -= entry.saved.cells
    this.#bytes -= entry.saved.state.length
  }
}
