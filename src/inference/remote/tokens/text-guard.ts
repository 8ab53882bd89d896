/**
 * Keeps a sequence of tokens out of what clients and models write where a server takes it for an image: it then has a space in
 * it. It matters for placeholders that are texts, such as `<image>`; no text becomes one that is a control token.
 */
export class TextGuard {
  readonly #sequence: readonly number[]
  readonly #space: readonly number[]

  constructor(sequence: readonly number[], space: readonly number[]) {
    this.#sequence = sequence
    this.#space = space
  }

  /** @returns the same tokens, where the sequence is not among them. */
  guarded(tokens: Readonly<ArrayLike<number>> & Iterable<number>): Iterable<number> {
    const [first, second] = this.#sequence
    const guarded: number[] = []
    let at = 0
    for (const token of tokens) {
      const before = guarded.at(-1)
      if (at > 0 && before === first && token === second && this.#continues(tokens, at - 1))
        guarded.push(...this.#space)
      guarded.push(token)
      at++
    }
    return guarded
  }

  #continues(tokens: Readonly<ArrayLike<number>>, from: number): boolean {
    return this.#sequence.every((token, index) => tokens[from + index] === token)
  }
}
