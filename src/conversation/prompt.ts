import { internalError, invalidRequest } from '../errors.ts'
import type { PromptPart } from '../inference/engine.ts'
import type { ChatTemplate, Turn } from './chat-template.ts'
import type { LoadedImages } from './images.ts'
import { type PlacedMessage, partsOf } from './message.ts'

export interface PromptSource {
  /** Name of the list that the messages came in, for errors. */
  readonly param: string
  readonly messages: readonly PlacedMessage[]
  readonly images: LoadedImages
  /** Text of the server's own for the head of the system turn. */
  readonly instruction: string | null
}

/**
 * Renders a conversation to the parts that an engine takes.
 *
 * The template never sees what the client wrote: each message's content goes through it as a placeholder. What comes
 * back around the placeholders is the template's own text, which alone may hold control tokens. So no client's text can
 * end its turn or open another, whatever the template does.
 *
 * @throws ApiError 400 when the template does not take the conversation.
 */
export function buildPrompt(source: PromptSource, template: ChatTemplate): PromptPart[] {
  const slots = new Slots()
  const rendered = template.render(turns(source, slots), source.param)
  slots.checkAllIn(rendered, source.param)
  return slots.fill(rendered)
}

/** A prompt that several others continue. */
export interface SharedPrompt {
  readonly prefix: readonly PromptPart[]
  /** What follows the prefix when the last user turn has this content. Never empty of text: it ends the turn. */
  suffix(content: readonly PromptPart[]): PromptPart[]
}

/**
 * Renders a conversation that ends with a user turn whose content is still open. It is rendered once, with one
 * placeholder for the open content, and cut there: so whatever the template does, what precedes the content is the same
 * for all contents.
 */
export function buildSharedPrompt(source: PromptSource, template: ChatTemplate): SharedPrompt {
  const slots = new Slots()
  const open = slots.open()
  const rendered = template.render([...turns(source, slots), { role: 'user', content: open }], source.param)
  slots.checkAllIn(rendered, source.param)
  const cut = rendered.indexOf(open)
  const rest = rendered.slice(cut)
  return {
    prefix: slots.fill(rendered.slice(0, cut)),
    suffix: (content) => slots.fill(rest, content),
  }
}

/** Templates disagree about system turns that follow one another, so the leading ones become one. */
function turns({ messages, images, instruction }: PromptSource, slots: Slots): Turn[] {
  const firstOther = messages.findIndex(({ message }) => message.role !== 'system' && message.role !== 'developer')
  const leading = messages.slice(0, firstOther === -1 ? messages.length : firstOther)
  const result: Turn[] = []
  if (instruction !== null || leading.length > 0) {
    const system: PromptPart[] = instruction === null ? [] : [{ type: 'text', text: instruction, trusted: true }]
    for (const [i, placed] of leading.entries()) {
      if (i > 0) system.push({ type: 'text', text: '\n', trusted: false })
      system.push(...contentOf(placed, images))
    }
    result.push({ role: 'system', content: slots.put(system) })
  }
  for (const placed of messages.slice(leading.length)) {
    result.push({ role: roleOf(placed), content: slots.put(contentOf(placed, images)) })
  }
  return result
}

function roleOf({ message }: PlacedMessage): Turn['role'] {
  if (message.role === 'developer') return 'system'
  if (message.role === 'tool') throw internalError(new Error('A tool message was admitted'))
  return message.role
}

/** A client's texts and pictures. Halves of surrogate pairs, which JSON can hold and UTF-8 cannot, become U+FFFD. */
export function contentOf(placed: PlacedMessage, images: LoadedImages): PromptPart[] {
  const parts: PromptPart[] = []
  for (const { part } of partsOf(placed)) {
    if (part.type === 'text') {
      if (part.text !== '') parts.push({ type: 'text', text: part.text.toWellFormed(), trusted: false })
      continue
    }
    const image = part.type === 'image_url' ? images.get(part) : undefined
    if (!image) throw internalError(new Error(`A part of type ${part.type} was admitted and not loaded`))
    // Handed over as it is: the engine itself puts the vision tokens around the picture, so the template must not.
    parts.push({ type: 'image', image })
  }
  return parts
}

/** Private-use characters, which no template writes. What clients write is never searched for them. */
const PLACEHOLDER = /\uE000(\d+)\uE001/

/** What goes through a template as placeholders. */
class Slots {
  /** Null for the open slot, which is filled last. */
  readonly #slots: (readonly PromptPart[] | null)[] = []

  put(parts: readonly PromptPart[]): string {
    return parts.length === 0 ? '' : this.#add(parts)
  }

  open(): string {
    return this.#add(null)
  }

  #add(parts: readonly PromptPart[] | null): string {
    this.#slots.push(parts)
    return `\uE000${this.#slots.length - 1}\uE001`
  }

  /** @throws ApiError 400 naming `param` when the template left a slot out. */
  checkAllIn(rendered: string, param: string): void {
    const seen = new Set([...rendered.matchAll(new RegExp(PLACEHOLDER, 'g'))].map((match) => Number(match[1])))
    if (seen.size === this.#slots.length) return
    throw invalidRequest("The model's chat template has no place for a part of this conversation", param)
  }

  fill(rendered: string, open: readonly PromptPart[] = []): PromptPart[] {
    const parts: PromptPart[] = []
    // Splitting by a pattern with one group gives text and slot numbers in turn.
    for (const [position, piece] of rendered.split(PLACEHOLDER).entries()) {
      if (position % 2 === 1) for (const part of this.#slots[Number(piece)] ?? open) append(parts, part)
      else if (piece !== '') append(parts, { type: 'text', text: piece, trusted: true })
    }
    return parts
  }
}

/** Texts of one trust that touch are one text, so that they are tokenised as one. */
function append(parts: PromptPart[], part: PromptPart): void {
  const last = parts.at(-1)
  if (part.type === 'text' && last?.type === 'text' && last.trusted === part.trusted) {
    parts[parts.length - 1] = { type: 'text', text: last.text + part.text, trusted: part.trusted }
  } else {
    parts.push(part)
  }
}
