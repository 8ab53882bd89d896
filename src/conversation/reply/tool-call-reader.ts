import type { Tool } from '../request/tool.ts'
import type { CallReader, ToolSyntax } from '../tools/syntax.ts'
import { MarkerScanner } from './marker-scanner.ts'
import type { ReplyPiece, TextStage } from './reply-piece.ts'

interface ToolCallOptions {
  readonly syntax: ToolSyntax
  readonly tools: readonly Tool[]
  /** Whether to keep only the first call. */
  readonly single: boolean
  newId(): string
}

/**
 * Extracts the tool calls from a reply. The result does not depend on how the text is chunked. White space around calls is
 * removed. Text that only starts like a call, or calls an undeclared function, stays text.
 */
export class ToolCallReader implements TextStage {
  readonly #options: ToolCallOptions
  readonly #begin: MarkerScanner
  #call: OpenCall | null = null
  /** White space that is text unless a call follows. */
  #blanks = ''
  /** Whether a mark around calls, or a call, came last. */
  #isAmongCalls = false
  #calls = 0

  constructor(options: ToolCallOptions) {
    this.#options = options
    this.#begin = new MarkerScanner([options.syntax.begin, ...(options.syntax.around ?? [])])
  }

  push(text: string): ReplyPiece[] {
    const pieces: ReplyPiece[] = []
    let left = text
    while (left !== '') left = this.#call ? this.#readCall(left, this.#call, pieces) : this.#readText(left, pieces)
    return pieces
  }

  end(cut: boolean): ReplyPiece[] {
    const pieces: ReplyPiece[] = []
    // A call truncated before its name is dropped. If the reply was not truncated, it was not a call but text.
    while (this.#call && !this.#call.named && !cut) {
      const rest = this.#refuse(this.#call, pieces)
      pieces.push(...this.push(rest))
    }
    // White space before a dropped call is not text either.
    if (this.#call) this.#blanks = ''
    this.#call = null
    const held = this.#begin.end()
    // The beginning of a mark where the next call would have begun.
    if (!cut || !this.#isAmongCalls) this.#addText(held, pieces)
    if (this.#blanks !== '' && this.#calls === 0) pieces.push({ type: 'text', text: this.#blanks })
    this.#blanks = ''
    return pieces
  }

  #readText(text: string, pieces: ReplyPiece[]): string {
    const { before, marker, rest } = this.#begin.find(text)
    this.#addText(before, pieces)
    if (marker === null) return ''
    if (marker !== this.#options.syntax.begin) {
      this.#isAmongCalls = true
      return rest
    }
    const { syntax, tools } = this.#options
    this.#call = { reader: syntax.readCall(tools), text: syntax.begin, named: false, dropped: false }
    return rest
  }

  #readCall(text: string, call: OpenCall, pieces: ReplyPiece[]): string {
    const { tools, single, newId } = this.#options
    const { events, state } = call.reader.push(text)
    if (!call.named) call.text += text
    const unknown = events.some((event) => event.type === 'call' && !tools.some(({ name }) => name === event.name))
    if (state === 'refused' || unknown) return this.#refuse(call, pieces)
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
    this.#isAmongCalls = true
    return state.ended
  }

  /** The marker is text, and the text after it may contain a call. */
  #refuse(call: OpenCall, pieces: ReplyPiece[]): string {
    const { begin } = this.#options.syntax
    this.#call = null
    this.#addText(begin, pieces)
    return call.text.slice(begin.length)
  }

  #addText(text: string, pieces: ReplyPiece[]): void {
    const held = this.#blanks + text
    const kept = held.trimEnd()
    this.#blanks = held.slice(kept.length)
    if (kept === '') return
    this.#isAmongCalls = false
    pieces.push({ type: 'text', text: kept })
  }
}

interface OpenCall {
  readonly reader: CallReader
  /** The text so far, kept until the call has a name. */
  text: string
  named: boolean
  dropped: boolean
}
