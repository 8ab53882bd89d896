import type { Tool } from '../request/tool.ts'
import type { CallReader, ToolSyntax } from '../tools/syntax.ts'
import { Marks } from './marker-scanner.ts'
import type { ReplyPiece, TextStage } from './reply-piece.ts'

export interface ToolCallOptions {
  readonly syntax: ToolSyntax
  readonly tools: readonly Tool[]
  /** Whether the first call is the only one; others are left out. */
  readonly single: boolean
  newId(): string
}

/**
 * Takes the tool calls out of a reply, however its text is cut. Blanks around calls go with them. What begins like a call
 * and is none, or calls what was not declared, is text.
 */
export class ToolCallReader implements TextStage {
  readonly #options: ToolCallOptions
  readonly #begin: Marks
  #call: OpenCall | null = null
  /** Blanks that are text unless a call follows. */
  #blanks = ''
  #calls = 0

  constructor(options: ToolCallOptions) {
    this.#options = options
    this.#begin = new Marks([options.syntax.begin])
  }

  push(text: string): ReplyPiece[] {
    const pieces: ReplyPiece[] = []
    let left = text
    while (left !== '') left = this.#call ? this.#readCall(left, this.#call, pieces) : this.#readText(left, pieces)
    return pieces
  }

  end(cut: boolean): ReplyPiece[] {
    const pieces: ReplyPiece[] = []
    const call = this.#call
    this.#call = null
    // A call that was cut before it could be read is left out; what ended by itself was no call.
    if (call && !call.named && !cut) this.#addText(call.text, pieces)
    this.#addText(this.#begin.end(), pieces)
    if (this.#blanks !== '' && this.#calls === 0) pieces.push({ type: 'text', text: this.#blanks })
    this.#blanks = ''
    return pieces
  }

  #readText(text: string, pieces: ReplyPiece[]): string {
    const { before, mark, rest } = this.#begin.find(text)
    this.#addText(before, pieces)
    if (mark === null) return ''
    const { syntax, tools } = this.#options
    this.#call = { reader: syntax.readCall(tools), text: syntax.begin, named: false, dropped: false }
    return rest
  }

  #readCall(text: string, call: OpenCall, pieces: ReplyPiece[]): string {
    const { syntax, tools, single, newId } = this.#options
    const { events, state } = call.reader.push(text)
    if (!call.named) call.text += text
    const unknown = events.some((event) => event.type === 'call' && !tools.some(({ name }) => name === event.name))
    if (state === 'refused' || unknown) {
      this.#call = null
      // The mark is text, and what follows it may hold a call again.
      this.#addText(syntax.begin, pieces)
      return call.text.slice(syntax.begin.length)
    }
    for (const event of events) {
      if (event.type === 'call') {
        call.named = true
        call.text = ''
        this.#blanks = ''
        call.dropped = single && this.#calls > 0
        if (call.dropped) continue
        pieces.push({ type: 'tool_call', index: this.#calls++, id: newId(), name: event.name })
      } else if (event.text !== '' && !call.dropped) {
        pieces.push({ type: 'tool_arguments', index: this.#calls - 1, text: event.text })
      }
    }
    if (state === 'open') return ''
    this.#call = null
    return state.ended
  }

  #addText(text: string, pieces: ReplyPiece[]): void {
    const held = this.#blanks + text
    const kept = held.trimEnd()
    this.#blanks = held.slice(kept.length)
    if (kept === '') return
    pieces.push({ type: 'text', text: kept })
  }
}

interface OpenCall {
  readonly reader: CallReader
  /** All that came of it so far, while it may turn out to be none. */
  text: string
  named: boolean
  dropped: boolean
}
