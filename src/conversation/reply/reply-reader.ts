import type { ThoughtMarks } from '../../families/family.ts'
import { MarkerScanner } from './marker-scanner.ts'
import type { ReplyPiece, TextStage } from './reply-piece.ts'
import { PLAIN } from './stages.ts'

interface ReplyReaderOptions {
  /** Null to read no thoughts. */
  readonly thought: ThoughtMarks | null
  /** Whether the text begins inside the reasoning. */
  readonly thinking: boolean
  /** Processes the reply that follows the reasoning; null to keep the reply verbatim. */
  readonly content: TextStage | null
}

/** Splits a model's text into its reasoning and its reply. */
export class ReplyReader implements TextStage {
  readonly #content: TextStage
  readonly #marks: ThoughtMarks | null
  readonly #verbatim: boolean
  readonly #end: MarkerScanner
  #state: 'start' | 'thought' | 'separator' | 'content'
  /** Text that may turn out to be a marker, or white space that may turn out to end the reasoning. */
  #held = ''
  #separator: string
  #thoughtStarted = false
  /** Whether some of the text has been read as the reply, or all of it will be. */
  #hasContent: boolean

  constructor({ thought, thinking, content }: ReplyReaderOptions) {
    this.#content = content ?? PLAIN
    this.#verbatim = content === null
    this.#marks = thought
    this.#end = new MarkerScanner(thought === null ? [] : [thought.end])
    this.#separator =
      thought === null ? '' : thought.closing.slice(thought.closing.indexOf(thought.end) + thought.end.length)
    this.#state = thought === null ? 'content' : thinking ? 'thought' : this.#verbatim ? 'content' : 'start'
    this.#hasContent = this.#state === 'content'
  }

  /** The section that the text so far ends in; `start` if that depends on the text that follows. */
  get section(): 'start' | 'thought' | 'content' {
    if (this.#state === 'start') return 'start'
    if (!this.#hasContent) return 'thought'
    const { isThinking = false } = this.#content
    return isThinking === null ? 'start' : isThinking ? 'thought' : 'content'
  }

  /** Whether some of the text that follows may be a thought. */
  get mayThink(): boolean {
    return this.section !== 'content' || this.#content.isThinking !== undefined
  }

  push(text: string): ReplyPiece[] {
    const pieces: ReplyPiece[] = []
    let left = text
    while (left !== '') {
      if (this.#state === 'content') {
        this.#hasContent = true
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

  /** When the reasoning was truncated, an incomplete marker at its end is dropped. */
  end(cut: boolean): ReplyPiece[] {
    const pieces: ReplyPiece[] = []
    if (this.#state === 'start' && this.#held !== '') pieces.push(...this.#content.push(this.#held))
    pieces.push(...this.#content.end(cut))
    return pieces
  }

  /** Handles a model that reasons although reasoning is off. */
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
    const { before, marker, rest } = this.#end.find(text)
    this.#addThought(before, pieces)
    if (marker === null) return ''
    this.#state = 'separator'
    this.#held = ''
    return rest
  }

  /** Adds reasoning without leading and trailing white space, and without a repeated start marker. */
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

  /** Skips the rest of the closing text; unless the reply is verbatim, skips all white space as well. */
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
