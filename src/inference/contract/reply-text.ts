import type { TextEvent, TokenLogProb } from './generation.ts'

/**
 * Joins the bytes of a completion's tokens into text. A token may end inside a character: its bytes are held back until the
 * rest arrives.
 */
export class ReplyText {
  readonly #place: Pick<TextEvent, 'branch' | 'completion'>
  readonly #hasLogProbs: boolean
  // A byte-order mark is an ordinary character here.
  #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  /** Number of the latest tokens whose text was not sent, because it is empty or not yet a complete character. */
  #silentTokens = 0
  /** Their log-probabilities. */
  #silentLogProbs: TokenLogProb[] = []

  constructor(place: Pick<TextEvent, 'branch' | 'completion'>, hasLogProbs: boolean) {
    this.#place = place
    this.#hasLogProbs = hasLogProbs
  }

  /**
   * @param pieces the bytes of the next tokens.
   * @returns the characters that are now complete; null if there are none.
   */
  push(pieces: readonly Uint8Array[], logProbs: readonly TokenLogProb[]): TextEvent | null {
    this.#silentTokens += pieces.length
    this.#silentLogProbs.push(...logProbs)
    let text = ''
    const ends = pieces.map((bytes) => {
      text += this.#decoder.decode(bytes, { stream: true })
      return text.length
    })
    return this.#tell(text, ends)
  }

  /** Returns the rest of an incomplete character. */
  end(): TextEvent | null {
    return this.#tell(this.#decoder.decode(), [])
  }

  /** Drops the rest of an incomplete character. */
  cut(): void {
    this.#decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  }

  /** @param told where the texts of the latest tokens end. */
  #tell(text: string, told: readonly number[]): TextEvent | null {
    const tokens = this.#silentTokens
    // An incomplete character at the end has no text of its own.
    if (text === '' || tokens === 0) return null
    const ends = tokens === 1 ? {} : { ends: [...Array<number>(tokens - told.length).fill(0), ...told] }
    const logProbs = this.#hasLogProbs ? { logProbs: this.#silentLogProbs } : {}
    this.#silentTokens = 0
    this.#silentLogProbs = []
    return { type: 'text', ...this.#place, text, tokens, ...ends, ...logProbs }
  }
}
