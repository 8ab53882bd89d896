import { MarkerScanner } from './marker-scanner.ts'
import type { ReplyPiece, TextStage } from './reply-piece.ts'

/**
 * Ends a reply at the first of given texts, which is dropped with all that follows it. Only the text of a reply is searched,
 * not the arguments of its tool calls.
 */
export class StopStage implements TextStage {
  readonly #inner: TextStage
  readonly #stops: MarkerScanner
  #found: string | null = null

  /** @param stops none is empty. */
  constructor(inner: TextStage, stops: readonly string[]) {
    this.#inner = inner
    // One that contains another is never reached first.
    this.#stops = new MarkerScanner(
      stops.filter((stop) => !stops.some((other) => other !== stop && stop.includes(other))),
    )
  }

  /** The text that was found first; null when none has been. */
  get found(): string | null {
    return this.#found
  }

  push(text: string): ReplyPiece[] {
    return this.#pass(this.#found === null ? this.#inner.push(text) : [])
  }

  end(cut: boolean): ReplyPiece[] {
    const pieces = this.#pass(this.#found === null ? this.#inner.end(cut) : [])
    return this.#found === null ? [...pieces, ...textPiece(this.#stops.end())] : pieces
  }

  #pass(pieces: readonly ReplyPiece[]): ReplyPiece[] {
    const passed: ReplyPiece[] = []
    for (const piece of pieces) {
      if (this.#found !== null) break
      if (piece.type !== 'text') {
        passed.push(...textPiece(this.#stops.end()), piece)
        continue
      }
      const { before, marker } = this.#stops.find(piece.text)
      this.#found = marker
      passed.push(...textPiece(before))
    }
    return passed
  }
}

function textPiece(text: string): ReplyPiece[] {
  return text === '' ? [] : [{ type: 'text', text }]
}
