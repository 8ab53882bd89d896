/**
 * The distinct tokens of a text. Texts share the set of their common beginning: a prompt may have tens of thousands of
 * tokens, which each completion would otherwise copy.
 */
export class SeenTokens {
  readonly #before: SeenTokens | null
  readonly #own = new Set<number>()

  /** @param before tokens of the text's beginning. It must not change while this set is in use. */
  constructor(before: SeenTokens | null, tokens: Iterable<number>) {
    this.#before = before
    for (const token of tokens) this.add(token)
  }

  get size(): number {
    return this.#own.size + (this.#before?.size ?? 0)
  }

  has(token: number): boolean {
    return this.#own.has(token) || (this.#before?.has(token) ?? false)
  }

  add(token: number): void {
    if (!this.has(token)) this.#own.add(token)
  }

  /** Faster than an iterator. */
  forEach(visit: (token: number) => void): void {
    this.#before?.forEach(visit)
    for (const token of this.#own) visit(token)
  }
}
