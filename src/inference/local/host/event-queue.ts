/** Passes values from a producer that never waits to one consumer that iterates once. */
export class EventQueue<T> implements AsyncIterable<T> {
  readonly #values: T[] = []
  readonly #onAbandon: () => void
  #ended = false
  #error: { readonly reason: unknown } | null = null
  #wake: (() => void) | null = null

  /** @param onAbandon called when the consumer stops before the end. */
  constructor(onAbandon: () => void) {
    this.#onAbandon = onAbandon
  }

  push(values: readonly T[]): void {
    if (this.#ended) return
    this.#values.push(...values)
    this.#wake?.()
  }

  end(): void {
    this.#ended = true
    this.#wake?.()
  }

  /** Makes the iteration reject with `reason` at once and drops unread values. */
  fail(reason: unknown): void {
    if (this.#ended) return
    this.#ended = true
    this.#error = { reason }
    this.#wake?.()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    try {
      for (;;) {
        if (this.#error !== null) throw this.#error.reason
        const value = this.#values.shift()
        if (value !== undefined) yield value
        else if (this.#ended) return
        else await this.#change()
      }
    } finally {
      if (!this.#ended) this.#onAbandon()
    }
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = null
        resolve()
      }
    })
  }
}
