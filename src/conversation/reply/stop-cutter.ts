import type { TokenLogProb } from '../../inference/contract/generation.ts'
import { begunMarker } from './marker-scanner.ts'
import type { ReplyPiece } from './reply-piece.ts'

/**
 * Ends a reply before the first of its stop sequences. It holds back text that may be the beginning of one. It searches
 * the text of the reply as the client sees it, but not reasoning or tool calls. The result does not depend on how the
 * text is chunked: of several sequences, the one that ends first counts, and of those the longest.
 */
export class StopCutter {
  readonly #sequences: readonly string[]
  #held = ''
  /** Tokens that no piece has carried, up to the end of the held text. */
  #logProbs: TokenLogProb[] = []
  #found: string | null = null

  /** @param sequences none is empty. */
  constructor(sequences: readonly string[]) {
    this.#sequences = sequences
  }

  /** The sequence that ended the reply; null before that. */
  get found(): string | null {
    return this.#found
  }

  /** Tokens that no piece carries; call at the end. */
  get rest(): readonly TokenLogProb[] {
    return this.#logProbs
  }

  push(piece: ReplyPiece): readonly ReplyPiece[] {
    if (this.#sequences.length === 0) return [piece]
    if (this.#found !== null) return []
    // A thought about the next picture is not part of the text, which continues after it.
    if (piece.type === 'reasoning') return [piece]
    if (piece.type !== 'text') return [...this.end(), ...this.#carrying(piece)]
    this.#logProbs.push(...(piece.logProbs ?? []))
    const text = this.#held + piece.text
    const match = this.#firstIn(text)
    if (match === null) {
      const kept = text.length - begunMarker(text, this.#sequences)
      this.#held = text.slice(kept)
      return this.#release(text.slice(0, kept))
    }
    this.#found = match.sequence
    this.#held = text.slice(match.at)
    const pieces = this.#release(text.slice(0, match.at))
    // The tokens of the sequence are not part of the reply.
    this.#held = ''
    this.#logProbs = []
    return pieces
  }

  /** Returns the text held back, if it did not become a sequence. */
  end(): readonly ReplyPiece[] {
    const text = this.#held
    this.#held = ''
    return this.#release(text)
  }

  #release(text: string): readonly ReplyPiece[] {
    return text === '' ? [] : this.#carrying({ type: 'text', text })
  }

  /** Adds log-probabilities to the piece: of all tokens except those that wrote only held text. */
  #carrying(piece: ReplyPiece): readonly ReplyPiece[] {
    let left = Buffer.byteLength(this.#held)
    let count = this.#logProbs.length
    while (count > 0 && this.#logProbs[count - 1]!.bytes.length <= left && left > 0) {
      left -= this.#logProbs[--count]!.bytes.length
    }
    const carried = [...this.#logProbs.splice(0, count), ...(piece.logProbs ?? [])]
    return [carried.length === 0 ? piece : { ...piece, logProbs: carried }]
  }

  #firstIn(text: string): { readonly at: number; readonly sequence: string } | null {
    let first: { at: number; end: number; sequence: string } | null = null
    for (const sequence of this.#sequences) {
      const at = text.indexOf(sequence)
      if (at === -1) continue
      const end = at + sequence.length
      if (first === null || end < first.end || (end === first.end && at < first.at)) first = { at, end, sequence }
    }
    return first
  }
}
