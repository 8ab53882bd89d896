import type { Vocabulary } from './hub-tokenizer.ts'

/** What tokens print: nothing for control tokens, except for those that a card lists. */
export class Printer {
  readonly #vocabulary: Vocabulary
  readonly #printed: ReadonlyMap<number, Uint8Array>

  /** @throws Error for a printed token that the vocabulary does not have. */
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

  /** Bytes of text in one token at most. */
  get longestBytes(): number {
    const { starts } = this.#vocabulary
    let longest = 1
    for (let id = 0; id + 1 < starts.length; id++) longest = Math.max(longest, starts[id + 1]! - starts[id]!)
    return longest
  }
}

/** The text of one completion, as its tokens arrive. The bytes of an incomplete character are held back. */
export class TextStream {
  readonly #printer: Printer
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })

  constructor(printer: Printer) {
    this.#printer = printer
  }

  read(tokens: readonly number[]): string {
    let text = ''
    for (const token of tokens) text += this.#decoder.decode(this.#printer.bytes(token), { stream: true })
    return text
  }

  /** What is left of a character that never ended. */
  end(): string {
    return this.#decoder.decode()
  }
}
