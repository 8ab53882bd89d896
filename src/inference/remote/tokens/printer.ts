import type { Vocabulary } from './hub-tokenizer.ts'

const DECODER = new TextDecoder('utf-8', { ignoreBOM: true })

/** Maps tokens to what they print: nothing for control tokens, except those that a card lists. */
export class Printer {
  readonly #vocabulary: Vocabulary
  readonly #printed: ReadonlyMap<number, Uint8Array>
  /** Names of control tokens. */
  #names: ReadonlyMap<number, string> | null = null

  /** @throws Error for a printed token that is not in the vocabulary. */
  constructor(vocabulary: Vocabulary, printedTokens: readonly string[]) {
    this.#vocabulary = vocabulary
    this.#printed = new Map(
      printedTokens.map((text) => {
        const id = vocabulary.control.get(text)
        if (id === undefined) throw new Error(`printedTokens: the vocabulary has no control token '${text}'`)
        return [id, Buffer.from(text)]
      }),
    )
  }

  bytes(token: number): Uint8Array {
    const { bytes, starts } = this.#vocabulary
    return this.#printed.get(token) ?? bytes.subarray(starts[token] ?? 0, starts[token + 1] ?? 0)
  }

  /** A token's text, with U+FFFD in place of incomplete characters, or a control token's name; and its bytes. */
  describe(token: number): { readonly text: string; readonly bytes: readonly number[] } {
    const bytes = this.bytes(token)
    if (bytes.length > 0) return { text: DECODER.decode(bytes), bytes: Array.from(bytes) }
    this.#names ??= new Map([...this.#vocabulary.control].map(([text, id]) => [id, text]))
    return { text: this.#names.get(token) ?? '', bytes: [] }
  }

  /** Maximum bytes of text in one token. */
  get longestBytes(): number {
    const { starts } = this.#vocabulary
    let longest = 1
    for (let id = 0; id + 1 < starts.length; id++) longest = Math.max(longest, starts[id + 1]! - starts[id]!)
    return longest
  }
}
