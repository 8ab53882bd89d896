/** Encoder output of recent pictures, least recently used out first. */
export class EmbeddingCache {
  readonly #entries = new Map<string, Float32Array>()
  readonly #capacityBytes: number
  #bytes = 0

  constructor(capacityBytes: number) {
    this.#capacityBytes = capacityBytes
  }

  get(key: string): Float32Array | undefined {
    const embeddings = this.#entries.get(key)
    if (embeddings === undefined) return undefined
    // A Map keeps insertion order: the first is the one unused for longest.
    this.#entries.delete(key)
    this.#entries.set(key, embeddings)
    return embeddings
  }

  set(key: string, embeddings: Float32Array): void {
    this.#remove(key)
    this.#entries.set(key, embeddings)
    this.#bytes += embeddings.byteLength
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#capacityBytes) break
      this.#remove(oldest)
    }
  }

  #remove(key: string): void {
    const embeddings = this.#entries.get(key)
    if (embeddings === undefined) return
    this.#entries.delete(key)
    this.#bytes -= embeddings.byteLength
  }
}
