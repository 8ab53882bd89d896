import { FairLru } from './fair-lru.ts'
import type { KvCache, KvSequence } from './kv-cache.ts'
import type { PrefixKey } from './prefix-key.ts'
import { longestMatch, type PrefixMatch } from './prefix-match.ts'
import { PrefixTree } from './prefix-tree.ts'

/** A sequence of ended work that stays in the KV cache. */
export interface RetainedSequence {
  readonly organisation: string
  /** Key of all its cells. */
  readonly key: PrefixKey
  readonly sequence: KvSequence
}

/**
 * Owns the sequences of ended work that stay in the KV cache until their cells are needed. A prompt with a common prefix
 * forks one, which copies nothing. Organisations never share them. The caller that needs cells releases them, in the order of
 * `FairLru`.
 */
export class RetainedSequences {
  readonly #kv: KvCache
  readonly #released: (item: RetainedSequence) => void
  /** Sequences with the cells of each, shared or not. */
  readonly #items = new FairLru<RetainedSequence>()
  readonly #tree = new PrefixTree<RetainedSequence>()
  #version = 0

  /** @param released called for each that is no longer retained. */
  constructor(kv: KvCache, released: (item: RetainedSequence) => void = () => {}) {
    this.#kv = kv
    this.#released = released
  }

  get count(): number {
    return this.#items.count
  }

  items(): Iterable<RetainedSequence> {
    return this.#items.items()
  }

  has(item: RetainedSequence): boolean {
    return this.#items.has(item)
  }

  /** Cells that would become free by releasing all, or all but one. */
  cells(except: RetainedSequence | null = null): number {
    const items = [...this.#items.items()].filter((item) => item !== except)
    return this.#kv.cellsFreedBy(items.map(({ sequence }) => sequence))
  }

  /** Changes whenever `find` may return another match. */
  get version(): number {
    return this.#version
  }

  /** The longest prefix of the key that one of them holds. Does not count as use. */
  find(organisation: string, key: PrefixKey): PrefixMatch<RetainedSequence> | null {
    return longestMatch(this.#tree.find(organisation, key), key, (source, cut) =>
      this.#kv.canCut(source.sequence, cut) ? { source, cut } : null,
    )
  }

  /**
   * Retains the cells of a sequence, which the caller may then release. Releases retained sequences that it makes
   * superfluous.
   * @param key what the sequence consists of.
   * @returns null if another one holds all of it, or if no sequence id is free.
   */
  add(organisation: string, key: PrefixKey, sequence: KvSequence): RetainedSequence | null {
    for (const item of [...this.#tree.find(organisation, key)]) {
      const cut = item.key.commonPrefix(key)
      if (cut.cells === key.length && this.#kv.canCut(item.sequence, cut)) {
        this.touch(item)
        return null
      }
      if (cut.cells === item.key.length && this.#kv.canCut(sequence, cut)) this.release(item)
    }
    return this.#kv.freeSequences === 0 ? null : this.#add(organisation, key, this.#kv.fork(sequence))
  }

  /** Marks a sequence as the most recently used. */
  touch(item: RetainedSequence): void {
    this.#items.touch(item)
  }

  /** The sequence to release next. */
  next(except: RetainedSequence | null = null): RetainedSequence | null {
    return this.#items.next((item) => item === except)
  }

  release(item: RetainedSequence): void {
    this.#items.delete(item)
    this.#tree.delete(item)
    this.#kv.release(item.sequence)
    this.#version++
    this.#released(item)
  }

  /** Frees the cells after the match, if they can be cut off. @returns whether it freed any. */
  trim({ source, cut }: PrefixMatch<RetainedSequence>): boolean {
    const { organisation, key, sequence } = source
    if (cut.cells === key.length || this.#kv.freeSequences === 0) return false
    const kept = this.#kv.fork(sequence, cut)
    this.release(source)
    this.#add(organisation, key.slice(cut.cells)!, kept)
    return true
  }

  #add(organisation: string, key: PrefixKey, sequence: KvSequence): RetainedSequence {
    const item = { organisation, key, sequence }
    this.#items.add(item, sequence.cells)
    this.#tree.add(organisation, key, item)
    this.#version++
    return item
  }
}
