/**
 * Joins the bytes of tokens into text. A token may end inside a character; its bytes are held back until the rest
 * comes, and never shown if it does not.
 */
export class TextStream {
  // A byte-order mark is a character like any other here.
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })

  /** @returns the characters that are whole now; may be empty. */
  push(bytes: Uint8Array): string {
    return this.#decoder.decode(bytes, { stream: true })
  }
}
