import { FairLru } from './fair-lru.ts'
import type { KvCache, KvSequence } from './kv-cache.ts'
import type { PrefixKey } from './prefix-key.ts'
import { longestMatch, type PrefixMatch } from './prefix-match.ts'
import { PrefixTree } from './prefix-tree.ts'

/** A sequence of ended work that stays in the KV cache. */
export interface RetainedSequence {
  readonly organisation: string
  /** Of all of its cells. */
  readonly key: PrefixKey
  readonly sequence: KvSequence
}

/**
 * Owns the sequences of ended work that stay in the KV cache while nothing else needs their cells: a prompt that begins
 * like one of them forks it, which copies nothing. Organisations never share them. Whoever needs room releases them, in
 * the order of `FairLru`.
 */
export class RetainedSequences {
  readonly #kv: KvCache
  readonly #released: (item: RetainedSequence) => void
  /** With the cells of each, whether shared or not. */
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

  /** Cells that would be free without them, or without all but one. */
  cells(except: RetainedSequence | null = null): number {
    const items = [...this.#items.items()].filter((item) => item !== except)
    return this.#kv.cellsFreedBy(items.map(({ sequence }) => sequence))
  }

  /** Another number whenever another one may be found. */
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
   * Keeps what a sequence holds; it may be released afterwards. What it makes superfluous is released.
   * @param key what the sequence consists of.
   * @returns null when another one holds all of it, or when no sequence is free.
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

  /** It was used: it is released later than others. */
  touch(item: RetainedSequence): void {
    this.#items.touch(item)
  }

  /** The one to release next. */
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

  /** Releases what comes after the match, if that can be cut off. @returns whether there was any. */
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
