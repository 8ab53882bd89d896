import { invalidRequest } from '../errors.ts'
import type { PromptPart } from '../inference/engine.ts'

/** Private-use characters, which no template writes. What clients write is never searched for them. */
const PLACEHOLDER = /\uE000(\d+)\uE001/

export interface SlotOptions {
  /** The same as JSON text. It stands in place of the slot and its quotes where the template puts it into quotes. */
  readonly json?: string
  /** Templates may leave it out. */
  readonly optional?: boolean
}

interface Slot {
  /** Null for the open slot, which is filled last. */
  readonly parts: readonly PromptPart[] | null
  readonly json: string | null
  readonly optional: boolean
}

/** What goes through a template as placeholders. */
export class Slots {
  readonly #slots: Slot[] = []
  readonly #names = new Map<string, string>()

  put(parts: readonly PromptPart[], options: SlotOptions = {}): string {
    return parts.length === 0 ? '' : this.#add(parts, options)
  }

  /** A text that a client wrote. */
  text(text: string, options: SlotOptions = {}): string {
    return this.put(untrusted(text), options)
  }

  /** The same slot for the same text: templates compare names. */
  name(text: string, json = JSON.stringify(text)): string {
    const known = this.#names.get(text)
    if (known !== undefined) return known
    const slot = this.#add(untrusted(text), { json, optional: true })
    this.#names.set(text, slot)
    return slot
  }

  open(): string {
    return this.#add(null, {})
  }

  #add(parts: readonly PromptPart[] | null, { json = undefined, optional = false }: SlotOptions): string {
    this.#slots.push({ parts, json: json ?? null, optional })
    // Of one length, so that a template that sorts them leaves them in their order.
    return `\uE000${String(this.#slots.length - 1).padStart(7, '0')}\uE001`
  }

  /** @throws ApiError 400 naming `param` when the template left a slot out. */
  checkAllIn(rendered: string, param: string): void {
    const seen = new Set([...rendered.matchAll(new RegExp(PLACEHOLDER, 'g'))].map((match) => Number(match[1])))
    if (this.#slots.every(({ optional }, index) => optional || seen.has(index))) return
    throw invalidRequest("The model's chat template has no place for a part of this conversation", param)
  }

  fill(rendered: string, open: readonly PromptPart[] = []): PromptPart[] {
    const parts: PromptPart[] = []
    // Splitting by a pattern with one group gives text and slot numbers in turn.
    const pieces = rendered.split(PLACEHOLDER)
    for (let position = 1; position < pieces.length; position += 2) {
      const slot = this.#slots[Number(pieces[position])]!
      let before = pieces[position - 1]!
      let content = slot.parts ?? open
      if (slot.json !== null && before.endsWith('"') && pieces[position + 1]!.startsWith('"')) {
        before = before.slice(0, -1)
        pieces[position + 1] = pieces[position + 1]!.slice(1)
        content = untrusted(slot.json)
      }
      if (before !== '') append(parts, { type: 'text', text: before, trusted: true })
      for (const part of content) append(parts, part)
    }
    const last = pieces.at(-1)!
    if (last !== '') append(parts, { type: 'text', text: last, trusted: true })
    return parts
  }
}

/** Halves of surrogate pairs, which JSON can hold and UTF-8 cannot, become U+FFFD. */
export function untrusted(text: string): PromptPart[] {
  return text === '' ? [] : [{ type: 'text', text: text.toWellFormed(), trusted: false }]
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
