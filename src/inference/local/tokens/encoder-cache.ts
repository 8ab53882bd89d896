import { LRUCache } from 'lru-cache'

interface Use {
  users: number
  embeddings: Float32Array | null
}

/**
 * Keeps what the encoders computed, by the key of the media, so that a prompt that shows an image in another place need not
 * encode it again. What a prompt in the engine uses stays, whatever its size; beyond that, the least recently used are
 * removed when the limit is reached, and what is larger than the limit is not kept and removes nothing.
 */
export class EncoderCache {
  readonly #recent: LRUCache<string, Float32Array>
  readonly #used = new Map<string, Use>()
  readonly #free: (embeddings: Float32Array) => void

  /**
   * @param limitBytes for what no prompt uses; 0 for none.
   * @param free called for what has left the cache and no prompt uses: its memory may be written again.
   */
  constructor(limitBytes: number, free: (embeddings: Float32Array) => void = () => {}) {
    this.#free = free
    this.#recent = new LRUCache({
      // The library takes no limit of 0.
      maxSize: Math.max(1, limitBytes),
      sizeCalculation: ({ byteLength }) => byteLength,
      dispose: (embeddings, key, reason) => {
        // What was encoded twice may still be read by the prompt that had it first.
        if (reason === 'evict' && this.#used.get(key)?.embeddings !== embeddings) free(embeddings)
      },
    })
  }

  get(key: string): Float32Array | undefined {
    return this.#used.get(key)?.embeddings ?? this.#recent.get(key)
  }

  set(key: string, embeddings: Float32Array): void {
    const use = this.#used.get(key)
    if (use !== undefined) use.embeddings = embeddings
    this.#recent.set(key, embeddings)
  }

  /** Keeps what is cached of the media, or will be, until the use is over. @returns called once, when it is. */
  use(key: string): () => void {
    const use = this.#used.get(key) ?? { users: 0, embeddings: this.#recent.get(key) ?? null }
    this.#used.set(key, use)
    use.users++
    return () => {
      if (--use.users > 0) return
      this.#used.delete(key)
      const { embeddings } = use
      if (embeddings !== null && this.#recent.peek(key) !== embeddings) this.#free(embeddings)
    }
  }
}
