import type { PromptPart } from '../../inference/engine.ts'
import { invalidRequest } from '../../lib/errors.ts'

/** Private-use characters, which no template writes. What clients write is never searched for them. */
const PLACEHOLDER = /\uE000(\d+)\uE001/

export interface PlaceholderOptions {
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
export class Placeholders {
  readonly #slots: Slot[] = []
  readonly #names = new Map<string, string>()

  put(parts: readonly PromptPart[], options: PlaceholderOptions = {}): string {
    return parts.length === 0 ? '' : this.#add(parts, options)
  }

  /** A text that a client wrote. */
  text(text: string, options: PlaceholderOptions = {}): string {
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

  #add(parts: readonly PromptPart[] | null, { json = undefined, optional = false }: PlaceholderOptions): string {
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
    // Splitting by a pattern with one group gives text and slot numbers in turn.
    const pieces = rendered.split(PLACEHOLDER)
    const texts = pieces.filter((_, position) => position % 2 === 0)
    const slots = pieces.filter((_, position) => position % 2 === 1).map((number) => this.#slots[Number(number)]!)
    const contents = slots.map(({ parts, json }, i) => {
      if (json === null || !texts[i]!.endsWith('"') || !texts[i + 1]!.startsWith('"')) return parts ?? open
      texts[i] = texts[i]!.slice(0, -1)
      texts[i + 1] = texts[i + 1]!.slice(1)
      return untrusted(json)
    })
    const parts: PromptPart[] = []
    for (const [i, text] of texts.entries()) {
      // JSON of the template's and of the client's is one text, which must be tokenised as one.
      const head = i > 0 && slots[i - 1]!.json !== null ? text.length - FROM_MARK.exec(text)![0].length : 0
      const tail = i < slots.length && slots[i]!.json !== null ? BEHIND_MARK.exec(text)!.index : text.length
      for (const part of untrusted(text.slice(0, head))) append(parts, part)
      const middle = text.slice(head, Math.max(head, tail))
      if (middle !== '') append(parts, { type: 'text', text: middle, trusted: true })
      for (const part of untrusted(text.slice(Math.max(head, tail)))) append(parts, part)
      for (const part of contents[i] ?? []) append(parts, part)
    }
    return parts
  }
}

/** What control tokens look like in all families. A text is searched for the first one, and for what follows the last. */
const MARK = '<[^<>\\s]+>|\\[/?[A-Z_]+\\]'
const FROM_MARK = new RegExp(`(?:(?:${MARK})[^]*)?$`)
const BEHIND_MARK = new RegExp(`(?<=^|${MARK})(?:(?!${MARK})[^])*$`)

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
