import { LRUCache } from 'lru-cache'

interface Use {
  users: number
  embeddings: Float32Array | null
  /** Whether the output may stay after its use. */
  isKept: boolean
}

/**
 * Caches encoder output by the key of the media, so that another prompt with the same image need not encode it again. Output
 * in use by a prompt stays, regardless of its size. Output that only transient prompts have used goes with them. Of the rest, the least recently used is removed when the limit is
 * reached; output larger than the limit is not cached and removes nothing.
 */
export class EncoderCache {
  readonly #recent: LRUCache<string, Float32Array>
  readonly #used = new Map<string, Use>()
  readonly #free: (embeddings: Float32Array) => void

  /**
   * @param limitBytes for output that no prompt uses; 0 for none.
   * @param free called for output that is neither cached nor used: its memory may be reused.
   */
  constructor(limitBytes: number, free: (embeddings: Float32Array) => void = () => {}) {
    this.#free = free
    this.#recent = new LRUCache({
      // The library takes no limit of 0.
      maxSize: Math.max(1, limitBytes),
      sizeCalculation: ({ byteLength }) => byteLength,
      dispose: (embeddings, key, reason) => {
        // If media were encoded twice, the first prompt may still read the old output.
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
    if (use?.isKept !== false) this.#recent.set(key, embeddings)
  }

  /**
   * Keeps the present or future output of the media until the use ends.
   * @param isTransient whether this use alone does not justify caching it.
   * @returns a function to end the use; call it once.
   */
  use(key: string, isTransient = false): () => void {
    const use = this.#used.get(key) ?? { users: 0, embeddings: this.#recent.get(key) ?? null, isKept: false }
    this.#used.set(key, use)
    use.users++
    if (!isTransient && !use.isKept) {
      use.isKept = true
      if (use.embeddings !== null) this.#recent.set(key, use.embeddings)
    }
    return () => {
      if (--use.users > 0) return
      this.#used.delete(key)
      const { embeddings } = use
      if (embeddings !== null && this.#recent.peek(key) !== embeddings) this.#free(embeddings)
    }
  }
}
