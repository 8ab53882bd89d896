import type { ThoughtMarks } from '../../families/index.ts'
import { Marks } from './marker-scanner.ts'
import type { ReplyPiece, TextStage } from './reply-piece.ts'
import type { TextFilter } from './text-filter.ts'

export interface ReplyReaderOptions {
  /** Null for a model that does not reason. */
  readonly thought: ThoughtMarks | null
  /** Whether the text begins within a thought. */
  readonly thinking: boolean
  /** What the reply behind the thought goes through; null leaves it as it is, to the letter. */
  readonly content: TextStage | null
}

/** Reads the text of a model: first its thought, then its reply. */
export class ReplyReader implements TextStage {
  readonly #content: TextStage
  readonly #marks: ThoughtMarks | null
  readonly #verbatim: boolean
  readonly #end: Marks
  #state: 'start' | 'thought' | 'separator' | 'content'
  /** A beginning that may still turn out to be a mark, or blanks that may turn out to be the end of the thought. */
  #held = ''
  #separator: string
  #thoughtStarted = false

  constructor({ thought, thinking, content }: ReplyReaderOptions) {
    this.#content = content ?? PLAIN
    this.#verbatim = content === null
    this.#marks = thought
    this.#end = new Marks(thought === null ? [] : [thought.end])
    this.#separator =
      thought === null ? '' : thought.closing.slice(thought.closing.indexOf(thought.end) + thought.end.length)
    this.#state = thought === null ? 'content' : thinking ? 'thought' : this.#verbatim ? 'content' : 'start'
  }

  push(text: string): ReplyPiece[] {
    const pieces: ReplyPiece[] = []
    let left = text
    while (left !== '') {
      if (this.#state === 'content') {
        pieces.push(...this.#content.push(left))
        break
      }
      left =
        this.#state === 'thought'
          ? this.#readThought(left, pieces)
          : this.#state === 'start'
            ? this.#readStart(left)
            : this.#readSeparator(left)
    }
    return pieces
  }

  /** Of a thought that was cut, a mark that has only begun is left out. */
  end(cut: boolean): ReplyPiece[] {
    const pieces: ReplyPiece[] = []
    if (this.#state === 'start' && this.#held !== '') pieces.push(...this.#content.push(this.#held))
    pieces.push(...this.#content.end(cut))
    return pieces
  }

  /** A model may think although it was not asked to. */
  #readStart(text: string): string {
    const begin = this.#marks!.begin.trim()
    const all = this.#held + text
    const start = all.trimStart()
    this.#held = ''
    if (start.startsWith(begin)) {
      this.#state = 'thought'
      return start.slice(begin.length)
    }
    if (begin.startsWith(start)) {
      this.#held = all
      return ''
    }
    this.#state = 'content'
    return all
  }

  #readThought(text: string, pieces: ReplyPiece[]): string {
    const { before, mark, rest } = this.#end.find(text)
    this.#addThought(before, pieces)
    if (mark === null) return ''
    this.#state = 'separator'
    this.#held = ''
    return rest
  }

  /** Without the blanks at its ends, and without a mark that the model repeats. */
  #addThought(text: string, pieces: ReplyPiece[]): void {
    let all = this.#held + text
    this.#held = ''
    if (!this.#thoughtStarted) {
      const begin = this.#marks!.begin.trim()
      all = all.trimStart()
      while (all.startsWith(begin)) all = all.slice(begin.length).trimStart()
      if (begin.startsWith(all)) {
        this.#held = all
        return
      }
      this.#thoughtStarted = true
    }
    const kept = all.trimEnd()
    this.#held = all.slice(kept.length)
    if (kept !== '') pieces.push({ type: 'reasoning', text: kept })
  }

  /** What the closing has behind its mark; and all blanks, unless the reply is to be kept to the letter. */
  #readSeparator(text: string): string {
    if (!this.#verbatim) {
      const rest = text.trimStart()
      if (rest !== '') this.#state = 'content'
      return rest
    }
    let at = 0
    while (at < text.length && this.#separator !== '' && text[at] === this.#separator[0]) {
      this.#separator = this.#separator.slice(1)
      at++
    }
    if (at < text.length || this.#separator === '') this.#state = 'content'
    return text.slice(at)
  }
}

/** Text as it is. */
export const PLAIN: TextStage = {
  push: (text) => [{ type: 'text', text }],
  end: () => [],
}

/** Takes marks of thoughts out of a text: they are no part of a reply, wherever they stand. */
export class MarkRemover implements TextFilter {
  readonly #marks: Marks

  constructor({ begin, end }: ThoughtMarks) {
    this.#marks = new Marks([begin.trim(), end])
  }

  push(text: string): string {
    let kept = ''
    for (let left = text; left !== ''; ) {
      const { before, rest } = this.#marks.find(left)
      kept += before
      left = rest
    }
    return kept
  }

  end(): string {
    return this.#marks.end()
  }
}
