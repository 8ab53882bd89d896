import { LRUCache } from 'lru-cache'
import type { SavedCells } from '../../cache/kv-cache.ts'

/** Copies of prefixes that gave way to others, by their keys. It owns them; those not used for longest are removed. */
export class PrefixCopies {
  readonly #copies: LRUCache<string, SavedCells>

  /** @param limitBytes 0 for no copies. */
  constructor(limitBytes: number) {
    this.#copies = new LRUCache({
      // The library takes whole numbers, and no limit of 0.
      maxSize: Math.max(1, Math.floor(limitBytes)),
      sizeCalculation: ({ state }) => Math.max(1, state.byteLength),
    })
  }

  has(key: string): boolean {
    return this.#copies.has(key)
  }

  get(key: string): SavedCells | undefined {
    return this.#copies.get(key)
  }

  set(key: string, copy: SavedCells): void {
    this.#copies.set(key, copy)
  }

  delete(key: string): void {
    this.#copies.delete(key)
  }
}
