import type { Cut, KvCache, KvSequence, SavedSequence } from './kv-cache.ts'
import type { PrefixKey } from './prefix-key.ts'

interface CachedPrefix {
  readonly organisation: string
  readonly key: PrefixKey
  readonly saved: SavedSequence
}

/** Where a prompt's prefix has been computed already, and how much of it. */
export interface PrefixMatch {
  readonly source: KvSequence | SavedSequence
  /** The part of the source that the prompt shares. */
  readonly cut: Cut
}

/** Shorter common prefixes, such as those that a template gives to all prompts, are faster to compute than to share. */
export const SHORTEST_MATCH = 16

/**
 * Owns copies of the sequences of ended work, so that a prompt with the same prefix need not compute it again: the next
 * turn of a chat, most of all. The copies lie outside the KV cache, because attention passes over every cell in use, if
 * only to skip it; within a few steps that costs more than the copy. Organisations never share them: the time to the
 * first token would tell one what another asked.
 */
export class PrefixCache {
  readonly #kv: KvCache
  readonly #limits: { readonly cells: number; readonly bytes: number }
  /** Least recently used first. */
  readonly #entries = new Set<CachedPrefix>()
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

  /** The entry with the longest common prefix; it counts as used now. */
  find(organisation: string, key: PrefixKey): PrefixMatch | null {
    let best: { readonly entry: CachedPrefix; readonly cut: Cut } | null = null
    for (const entry of this.#entries) {
      if (entry.organisation !== organisation) continue
      const cut = entry.key.commonPrefix(key)
      if (cut.cells >= SHORTEST_MATCH && cut.cells > (best?.cut.cells ?? 0)) best = { entry, cut }
    }
    if (best === null) return null
    this.#touch(best.entry)
    return { source: best.entry.saved, cut: best.cut }
  }

  /** Copies a sequence, unless an entry holds all of it already. @param key what the sequence consists of. */
  add(organisation: string, key: PrefixKey, sequence: KvSequence): void {
    if (key.length < SHORTEST_MATCH || key.length > this.#limits.cells) return
    for (const entry of this.#entries) {
      if (entry.organisation !== organisation) continue
      const { cells } = entry.key.commonPrefix(key)
      if (cells === key.length) {
        this.#touch(entry)
        return
      }
      if (cells === entry.key.length) this.#remove(entry)
    }
    const saved = this.#kv.save(sequence)
    this.#entries.add({ organisation, key, saved })
    this.#cells += saved.cells
    this.#bytes += saved.state.length
    for (const oldest of this.#entries) {
      if (this.#cells <= this.#limits.cells && this.#bytes <= this.#limits.bytes) break
      this.#remove(oldest)
    }
  }

  #touch(entry: CachedPrefix): void {
    this.#entries.delete(entry)
    this.#entries.add(entry)
  }

  #remove(entry: CachedPrefix): void {
    this.#entries.delete(entry)
    this.#cells -= entry.saved.cells
    this.#bytes -= entry.saved.state.length
  }
}
