import { joinPieces, type ReplyPiece } from './reply-piece.ts'

type TextPiece = Extract<ReplyPiece, { type: 'text' }>

/**
 * Joins the model's texts about one picture after another. The reply for a picture in which it finds nothing is left out
 * if there is text about another picture.
 */
export class TextJoiner {
  readonly #nothing: string
  /** Text about the current picture that may turn out to be the reply for finding nothing. */
  #held: TextPiece | null = null
  /** The text that was left out for the first such picture. */
  #leftOut: TextPiece | null = null
  #hasOwnText = false
  #lastCharacter = ''
  /** Whether there were thoughts: none, only before the current picture, or about it. */
  #thoughts: 'none' | 'before' | 'now' = 'none'

  constructor(nothing: string) {
    this.#nothing = nothing.trim()
  }

  push(piece: ReplyPiece): readonly ReplyPiece[] {
    if (piece.type === 'reasoning') return [this.#thought(piece)]
    if (piece.type !== 'text') return [piece]
    if (this.#hasOwnText) return [this.#noted(piece)]
    const text = this.#held === null ? piece : (joinPieces([this.#held, piece])[0] as TextPiece)
    this.#held = text
    return this.#nothing.startsWith(text.text.trim()) ? [] : this.#release()
  }

  /** Ends the text about a picture; another picture follows. */
  next(): readonly ReplyPiece[] {
    const held = this.#held?.text.trim()
    const saysNothing = held === '' || held === this.#nothing
    if (saysNothing) this.#leftOut ??= this.#held
    const pieces = saysNothing ? [] : this.#release()
    this.#held = null
    this.#hasOwnText = false
    this.#thoughts = this.#thoughts === 'none' ? 'none' : 'before'
    return pieces
  }

  /**
   * Ends the text about the last picture.
   * @param isCut whether the model was stopped at a picture, before it may have found something.
   */
  end(isCut: boolean): readonly ReplyPiece[] {
    // The held text is the beginning of the reply for finding nothing.
    if (isCut) this.#held = null
    const pieces = this.next()
    if (isCut || this.#lastCharacter !== '' || this.#leftOut === null) return pieces
    return [...pieces, this.#leftOut]
  }

  #thought(piece: Extract<ReplyPiece, { type: 'reasoning' }>): ReplyPiece {
    const isNext = this.#thoughts === 'before'
    this.#thoughts = 'now'
    return isNext ? { ...piece, text: `\n${piece.text}` } : piece
  }

  #release(): readonly ReplyPiece[] {
    const held = this.#held
    this.#held = null
    if (held === null) return []
    this.#hasOwnText = true
    if (this.#lastCharacter === '') return [this.#noted(held)]
    const separator = this.#lastCharacter === '\n' ? '' : '\n'
    return [this.#noted({ ...held, text: separator + held.text.trimStart() })]
  }

  #noted(piece: TextPiece): TextPiece {
    this.#lastCharacter = piece.text.at(-1) ?? this.#lastCharacter
    return piece
  }
}
