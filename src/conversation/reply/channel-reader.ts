import type { Tool } from '../request/tool.ts'
import { CHANNEL, ENDS, MESSAGE } from '../tools/harmony.ts'
import { MarkerScanner } from './marker-scanner.ts'
import type { ReplyPiece, TextStage } from './reply-piece.ts'

interface ChannelOptions {
  readonly tools: readonly Tool[]
  /** Whether to keep only the first call. */
  readonly single: boolean
  /** Whether the text begins after the header of the answer. */
  readonly inAnswer: boolean
  /** Whether a thought was read earlier, and whether later ones are shown. */
  readonly hasThought: boolean
  readonly showsThoughts: boolean
  newId(): string
}

/** Possible beginnings of a header, after white space. */
const HEADERS = ['<|start|>', CHANNEL, 'to=', '<|constrain|>', MESSAGE]
const LONGEST_HEADER = 1000

type Section = 'header' | 'text' | 'thought' | 'call' | 'dropped'

/** Reads messages in channels. The result does not depend on how the text is chunked. */
export class ChannelReader implements TextStage {
  readonly #options: ChannelOptions
  readonly #ends = new MarkerScanner(ENDS)
  #section: Section
  /** The header so far. */
  #header = ''
  #calls = 0
  /** Whether an earlier message had text of this kind. */
  #hasText = false
  #hasThought: boolean
  #isEmpty = true
  /** Whether the last message was a thought. */
  #endsThought = false

  constructor(options: ChannelOptions) {
    this.#options = options
    this.#section = options.inAnswer ? 'text' : 'header'
    this.#hasThought = options.hasThought
  }

  get isThinking(): boolean | null {
    if (this.#section !== 'header') return this.#section === 'thought'
    return this.#header === '' ? this.#endsThought : null
  }

  push(text: string): ReplyPiece[] {
    const pieces: ReplyPiece[] = []
    let left = text
    while (left !== '')
      left = this.#section === 'header' ? this.#readHeader(left, pieces) : this.#readBody(left, pieces)
    return pieces
  }

  end(cut: boolean): ReplyPiece[] {
    const pieces: ReplyPiece[] = []
    // The beginning of a mark that never completed.
    this.#add(this.#ends.end(), pieces)
    if (this.#section !== 'header') this.#endMessage(cut, pieces)
    return pieces
  }

  #readHeader(text: string, pieces: ReplyPiece[]): string {
    this.#header += text
    const start = this.#header.trimStart()
    const mayBeHeader = HEADERS.some((mark) => start.startsWith(mark) || mark.startsWith(start))
    const at = start.indexOf(MESSAGE)
    // The length just before the header is complete, so that the limit does not depend on chunking.
    const length = at === -1 ? start.length : at + MESSAGE.length - 1
    if (mayBeHeader && length <= LONGEST_HEADER) {
      if (at === -1) return ''
      this.#open(start.slice(0, at), pieces)
      return start.slice(at + MESSAGE.length)
    }
    // A message without a header.
    this.#header = ''
    this.#begin('text')
    return start
  }

  #open(header: string, pieces: ReplyPiece[]): void {
    this.#header = ''
    const channel = /<\|channel\|>\s*(\w+)/.exec(header)?.[1]
    const name = /(?:^|\s|>)to=(?:functions\.)?([^\s<]+)/.exec(header)?.[1]
    const { tools, single, newId } = this.#options
    if (name === undefined || !tools.some((tool) => tool.name === name)) {
      this.#begin(channel === 'analysis' ? 'thought' : 'text')
    } else if (single && this.#calls > 0) {
      this.#begin('dropped')
    } else {
      pieces.push({ type: 'tool_call', index: this.#calls++, id: newId(), name })
      this.#begin('call')
    }
  }

  #begin(section: Section): void {
    this.#section = section
    this.#isEmpty = true
  }

  #readBody(text: string, pieces: ReplyPiece[]): string {
    const { before, marker, rest } = this.#ends.find(text)
    this.#add(before, pieces)
    if (marker !== null) this.#endMessage(false, pieces)
    return rest
  }

  #add(text: string, pieces: ReplyPiece[]): void {
    const body = this.#isEmpty ? text.trimStart() : text
    if (body === '') return
    const isFirst = this.#isEmpty
    this.#isEmpty = false
    if (this.#section === 'call') pieces.push({ type: 'tool_arguments', index: this.#calls - 1, text: body })
    if (this.#section === 'text') pieces.push({ type: 'text', text: isFirst && this.#hasText ? `\n${body}` : body })
    if (this.#section === 'thought' && this.#options.showsThoughts)
      pieces.push({ type: 'reasoning', text: isFirst && this.#hasThought ? `\n${body}` : body })
  }

  #endMessage(cut: boolean, pieces: ReplyPiece[]): void {
    if (this.#section === 'call' && this.#isEmpty && !cut)
      pieces.push({ type: 'tool_arguments', index: this.#calls - 1, text: '{}' })
    this.#hasText ||= this.#section === 'text' && !this.#isEmpty
    this.#hasThought ||= this.#section === 'thought' && !this.#isEmpty
    this.#endsThought = this.#section === 'thought'
    this.#section = 'header'
  }
}
