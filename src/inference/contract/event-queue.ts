/**
 * Passes values from a producer that never waits to one consumer that iterates once. Values that wait for a slow consumer
 * are joined where they can be: it then catches up, with fewer and larger ones.
 */
export class EventQueue<T> implements AsyncIterable<T> {
  readonly #values: T[] = []
  readonly #onAbandon: () => void
  readonly #join: (last: T, next: T) => T | null
  #ended = false
  #error: { readonly reason: unknown } | null = null
  #wake: (() => void) | null = null

  /**
   * @param onAbandon called when the consumer stops before the end.
   * @param join makes one value of two that follow each other; null where they stay two.
   */
  constructor(onAbandon: () => void, join: (last: T, next: T) => T | null) {
    this.#onAbandon = onAbandon
    this.#join = join
  }

  push(values: readonly T[]): void {
    if (this.#ended) return
    for (const value of values) this.#add(value)
    this.#wake?.()
  }

  #add(value: T): void {
    const last = this.#values.at(-1)
    const joined = last === undefined ? null : this.#join(last, value)
    if (joined === null) this.#values.push(value)
    else this.#values[this.#values.length - 1] = joined
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
