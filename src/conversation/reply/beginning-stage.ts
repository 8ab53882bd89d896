import type { ReplyPiece, TextStage } from './reply-piece.ts'
import { PLAIN } from './reply-reader.ts'

/** Reads a reply with a stage if it begins with one of the markers, blanks aside, and verbatim if it does not. */
export class BeginningStage implements TextStage {
  readonly #markers: readonly string[]
  readonly #marked: TextStage
  #chosen: TextStage | null = null
  /** Text that may turn out to be a marker. */
  #held = ''

  constructor(markers: readonly string[], marked: TextStage) {
    this.#markers = markers
    this.#marked = marked
  }

  push(text: string): ReplyPiece[] {
    if (this.#chosen !== null) return this.#chosen.push(text)
    this.#held += text
    const start = this.#held.trimStart()
    if (this.#markers.some((marker) => start.startsWith(marker))) return this.#choose(this.#marked)
    return this.#markers.some((marker) => marker.startsWith(start)) ? [] : this.#choose(PLAIN)
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
