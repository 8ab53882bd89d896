import type { RgbImage } from '../../../media/pixels.ts'
import type { ImagePart, TextPart } from '../../contract/parts.ts'

export type PromptPiece = TextPart | ImagePart

export interface ChatMessage {
  readonly role: Role
  readonly content: readonly MessagePart[]
  /** The thought before an assistant's content; null for none. */
  readonly reasoning: string | null
}

type MessagePart =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly image: RgbImage }

type Role = 'system' | 'user' | 'assistant'

/** The marks that the built-in ChatML template writes around messages and thoughts. */
const MARK = /(<\|im_start\|>(?:system|user|assistant)\n?|<\|im_end\|>\n?|<think>\n|\n<\/think>\n\n)/
const BEGIN = /^<\|im_start\|>(system|user|assistant)/

/**
 * Parses a prompt rendered by the built-in ChatML template back into messages. Only marks in trusted text count, so a
 * client cannot inject any. The last message, which the reply begins, is left out. A prompt without a template is a
 * user message.
 */
export function readMessages(pieces: readonly PromptPiece[]): ChatMessage[] {
  const messages: OpenMessage[] = []
  for (const piece of pieces) {
    const isMark = piece.type === 'text' && piece.trusted && BEGIN.test(piece.text)
    if (messages.length === 0 && !isMark) messages.push(new OpenMessage('user'))
    const last = messages.at(-1)
    if (piece.type === 'image') last?.content.push({ type: 'image', image: piece.image })
    else if (!piece.trusted) last?.write(piece.text)
    else for (const text of piece.text.split(MARK)) readTrusted(text, messages)
  }
  return messages.at(-1)?.role === 'assistant' ? messages.slice(0, -1) : messages
}

function readTrusted(text: string, messages: OpenMessage[]): void {
  const last = messages.at(-1)
  const begin = BEGIN.exec(text)
  if (begin !== null) messages.push(new OpenMessage(begin[1] as Role))
  else if (text.startsWith('<|im_end|>')) return
  else if (text === '<think>\n' && last?.role === 'assistant') last.beginThought()
  else if (text === '\n</think>\n\n' && last?.isThinking) last.isThinking = false
  else last?.write(text)
}

class OpenMessage implements ChatMessage {
  readonly role: Role
  readonly content: MessagePart[] = []
  reasoning: string | null = null
  isThinking = false

  constructor(role: Role) {
    this.role = role
  }

  beginThought(): void {
    this.isThinking = true
    this.reasoning ??= ''
  }

  write(text: string): void {
    const last = this.content.at(-1)
    if (text === '') return
    if (this.isThinking) this.reasoning += text
    else if (last?.type === 'text') this.content[this.content.length - 1] = { type: 'text', text: last.text + text }
    else this.content.push({ type: 'text', text })
  }
}
