import type { ReplyPiece, TextStage } from './reply-piece.ts'

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

  get isThinking(): boolean | null {
    return this.#inner.isThinking === undefined ? false : this.#inner.isThinking
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
