/**
 * Joins the bytes of a sequence's tokens into text. A token may end inside a character: its bytes are held back until the
 * rest arrives, and dropped if it never does.
 */
export class TextStream {
  // A byte-order mark is an ordinary character here.
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })

  /** @returns the characters that are complete now; may be empty. */
  push(bytes: Uint8Array): string {
    return this.#decoder.decode(bytes, { stream: true })
  }
}
