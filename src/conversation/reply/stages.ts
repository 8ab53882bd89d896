import type { ThoughtMarks } from '../../families/family.ts'
import { MarkerScanner } from './marker-scanner.ts'
import type { ReplyPiece, TextStage } from './reply-piece.ts'

/** Passes text through unchanged. */
export const PLAIN: TextStage = {
  push: (text) => [{ type: 'text', text }],
  end: () => [],
}

/** Rewrites a streamed text. */
export interface TextFilter {
  push(text: string): string
  /** @param cut whether the text was truncated. */
  end(cut: boolean): string
}

/** Passes the texts of another stage through a filter. Before any other piece it emits the text held back. */
export class FilteredStage implements TextStage {
  readonly #inner: TextStage
  readonly #create: () => TextFilter
  #filter: TextFilter | null = null

  constructor(inner: TextStage, create: () => TextFilter) {
    this.#inner = inner
    this.#create = create
  }

  get isThinking(): boolean | null | undefined {
    return this.#inner.isThinking
  }

  push(text: string): ReplyPiece[] {
    return this.#inner.push(text).flatMap((piece) => this.#pass(piece))
  }

  end(cut: boolean): ReplyPiece[] {
    return [...this.#inner.end(cut).flatMap((piece) => this.#pass(piece)), ...this.#finish(cut)]
  }

  #pass(piece: ReplyPiece): ReplyPiece[] {
    if (piece.type !== 'text') return [...this.#finish(false), piece]
    this.#filter ??= this.#create()
    return pieceOf(this.#filter.push(piece.text))
  }

  #finish(cut: boolean): ReplyPiece[] {
    const text = this.#filter?.end(cut) ?? ''
    this.#filter = null
    return pieceOf(text)
  }
}

function pieceOf(text: string): ReplyPiece[] {
  return text === '' ? [] : [{ type: 'text', text }]
}

/** Removes reasoning markers from a text: they are never part of a reply. */
export class MarkerRemover implements TextFilter {
  readonly #markers: MarkerScanner

  constructor({ begin, end }: ThoughtMarks) {
    this.#markers = new MarkerScanner([begin.trim(), end])
  }

  push(text: string): string {
    let kept = ''
    for (let left = text; left !== ''; ) {
      const { before, rest } = this.#markers.find(left)
      kept += before
      left = rest
    }
    return kept
  }

  end(): string {
    return this.#markers.end()
  }
}

/** Reads a reply with a stage if it begins with one of the markers, after optional blanks, and verbatim otherwise. */
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
