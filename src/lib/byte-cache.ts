/** Recent results by key, least recently used out first, within a size in bytes. */
export class ByteCache<Value> {
  readonly #entries = new Map<string, Value>()
  readonly #capacityBytes: number
  readonly #bytesOf: (value: Value) => number
  #bytes = 0

  constructor(capacityBytes: number, bytesOf: (value: Value) => number) {
    this.#capacityBytes = capacityBytes
    this.#bytesOf = bytesOf
  }

  get(key: string): Value | undefined {
    const value = this.#entries.get(key)
    if (value === undefined) return undefined
    // A Map keeps insertion order: the first is the one unused for longest.
    this.#entries.delete(key)
    this.#entries.set(key, value)
    return value
  }

  set(key: string, value: Value): void {
    this.#remove(key)
    this.#entries.set(key, value)
    this.#bytes += this.#bytesOf(value)
    for (const oldest of this.#entries.keys()) {
      if (this.#bytes <= this.#capacityBytes) break
      this.#remove(oldest)
    }
  }

  #remove(key: string): void {
    const value = this.#entries.get(key)
    if (value === undefined) return
    this.#entries.delete(key)
    this.#bytes -= this.#bytesOf(value)
  }
}
