/** A piece of a prompt: equal keys mean equal tokens, after equal pieces. */
export interface Piece {
  readonly key: string
  readonly tokens: number
}

/** The prompts that a replica has computed, in pieces. The least recently used goes first. */
export class PrefixCache {
  /** Tokens by key; the first is next to go. */
  readonly #kept = new Map<string, number>()
  #size = 0

  /** Tokens kept. */
  get size(): number {
    return this.#size
  }

  /** How many tokens a prompt begins with that are kept. */
  find(prompt: readonly Piece[]): number {
    let found = 0
    for (const { key } of prompt) {
      const tokens = this.#kept.get(key)
      if (tokens === undefined) break
      found += tokens
    }
    return found
  }

  /** @param room most tokens to keep: what is running needs the rest. */
  keep(prompt: readonly Piece[], room: number): void {
    // The end of a prompt goes before its beginning, without which it would be of no use.
    for (const { key, tokens } of prompt.toReversed()) {
      this.#size += tokens - (this.#kept.get(key) ?? 0)
      this.#kept.delete(key)
      this.#kept.set(key, tokens)
    }
    for (const [key, tokens] of this.#kept) {
      if (this.#size <= room) return
      this.#kept.delete(key)
      this.#size -= tokens
    }
  }
}
