/**
 * Passes values from a producer that never waits to one consumer that iterates once. Values that wait for a slow
 * consumer are joined if possible, so that it catches up with fewer and larger ones.
 */
export class EventQueue<T> implements AsyncIterable<T> {
  readonly #values: T[] = []
  readonly #onAbandon: () => void
  readonly #join: (last: T, next: T) => T | null
  #ended = false
  #error: { readonly reason: unknown } | null = null
  /** Resolves when a waiting consumer must look again. */
  #changed = Promise.withResolvers<void>()

  /**
   * @param onAbandon called when the consumer stops before the end.
   * @param join joins two consecutive values; null if they stay separate.
   */
  constructor(onAbandon: () => void, join: (last: T, next: T) => T | null) {
    this.#onAbandon = onAbandon
    this.#join = join
  }

  push(values: readonly T[]): void {
    if (this.#ended) return
    for (const value of values) {
      const last = this.#values.at(-1)
      const joined = last === undefined ? null : this.#join(last, value)
      if (joined === null) this.#values.push(value)
      else this.#values[this.#values.length - 1] = joined
    }
    this.#changed.resolve()
  }

  end(): void {
    this.#ended = true
    this.#changed.resolve()
  }

  /** Makes the iteration reject with `reason` at once and drops unread values. */
  fail(reason: unknown): void {
    if (this.#ended) return
    this.#ended = true
    this.#error = { reason }
    this.#changed.resolve()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    try {
      for (;;) {
        if (this.#error !== null) throw this.#error.reason
        const value = this.#values.shift()
        if (value !== undefined) yield value
        else if (this.#ended) return
        else {
          this.#changed = Promise.withResolvers()
          await this.#changed.promise
        }
      }
    } finally {
      if (!this.#ended) this.#onAbandon()
    }
  }
}
