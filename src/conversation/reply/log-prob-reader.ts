import type { TextEvent, TokenLogProb } from '../../inference/contract/generation.ts'
import type { ReplyPiece } from './reply-piece.ts'
import type { ReplyReader } from './reply-reader.ts'

/**
 * Reads a completion whose tokens may have log-probabilities. A token of the reply goes with the first piece that it
 * completes; tokens of a thought are dropped. A token that holds both the end of a thought and some of the reply
 * belongs to the reply. The tokens are those that the model wrote, even if their text is changed or removed later.
 */
export class LogProbReader {
  readonly #reader: ReplyReader
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  /** Tokens that no piece has carried yet. */
  #kept: TokenLogProb[] = []
  /** Tokens that may turn out to be the beginning of a thought. */
  #unsure: TokenLogProb[] = []

  constructor(reader: ReplyReader) {
    this.#reader = reader
  }

  /** Tokens that no piece carries; call at the end. */
  get rest(): readonly TokenLogProb[] {
    return this.#kept
  }

  push({ text, logProbs }: Pick<TextEvent, 'text' | 'logProbs'>): readonly ReplyPiece[] {
    if (logProbs === undefined) return this.#reader.push(text)
    // Which part of the text each token wrote matters only beside thoughts.
    if (!this.#reader.mayThink) return this.#read(text, logProbs)
    return this.#split(text, logProbs).flatMap((part) => this.#read(part.text, part.tokens))
  }

  end(cut: boolean): readonly ReplyPiece[] {
    const pieces = this.#reader.end(cut)
    this.#kept.push(...this.#unsure.splice(0))
    return this.#carried(pieces)
  }

  #read(text: string, tokens: readonly TokenLogProb[]): readonly ReplyPiece[] {
    const pieces = this.#reader.push(text)
    this.#unsure.push(...tokens)
    const { section } = this.#reader
    if (section === 'content') this.#kept.push(...this.#unsure)
    if (section !== 'start') this.#unsure = []
    return this.#carried(pieces)
  }

  #carried(pieces: readonly ReplyPiece[]): readonly ReplyPiece[] {
    const at = this.#kept.length === 0 ? -1 : pieces.findIndex(({ type }) => type !== 'reasoning')
    if (at === -1) return pieces
    const logProbs = this.#kept
    this.#kept = []
    return pieces.with(at, { ...pieces[at]!, logProbs })
  }

  /** Splits the text into the parts that each token completed. If the tokens print another text, they share all of it. */
  #split(
    text: string,
    logProbs: readonly TokenLogProb[],
  ): readonly { readonly text: string; readonly tokens: readonly TokenLogProb[] }[] {
    const parts = logProbs.map((token) => ({
      text: this.#decoder.decode(Uint8Array.from(token.bytes), { stream: true }),
      tokens: [token],
    }))
    return parts.map((part) => part.text).join('') === text ? parts : [{ text, tokens: logProbs }]
  }
}
