import type { ReplyPiece, TextStage } from './reply-piece.ts'
import { PLAIN } from './reply-reader.ts'

/** Reads a reply with a stage if it begins with a marker, blanks aside, and verbatim if it does not. */
export class BeginningStage implements TextStage {
  readonly #marker: string
  readonly #marked: TextStage
  #chosen: TextStage | null = null
  /** Text that may turn out to be the marker. */
  #held = ''

  constructor(marker: string, marked: TextStage) {
    this.#marker = marker
    this.#marked = marked
  }

  push(text: string): ReplyPiece[] {
    if (this.#chosen !== null) return this.#chosen.push(text)
    this.#held += text
    const start = this.#held.trimStart()
    if (start.startsWith(this.#marker)) return this.#choose(this.#marked)
    return this.#marker.startsWith(start) ? [] : this.#choose(PLAIN)
  }

  end(cut: boolean): ReplyPiece[] {
    const pieces = this.#chosen === null && this.#held !== '' ? this.#choose(PLAIN) : []
    return [...pieces, ...(this.#chosen ?? PLAIN).end(cut)]
  }

  #choose(stage: TextStage): ReplyPiece[] {
    this.#chosen = stage
    return stage.push(this.#held)
  }
}
