import type { PromptPart } from '../../inference/contract/parts.ts'
import { invalidRequest } from '../../lib/errors/errors.ts'
import { getOrMake } from '../../lib/get-or-make.ts'
import { pythonEscaped } from '../../templates/jinja/values.ts'

/**
 * Private-use characters, which no template emits. Client texts are never searched for them. A template that writes a
 * placeholder as JSON or as Python's `repr` adds the letter.
 */
const PLACEHOLDER = /\uE000(\d+)([jr]?)\uE001/

interface PlaceholderOptions {
  /** The value as JSON text. Where the template quotes the placeholder, it replaces the placeholder and the quotes. */
  readonly json?: string
  /** Whether text that the template writes as JSON or as Python's `repr` is escaped to match; by default with `json`. */
  readonly escapes?: boolean
  /** Whether the template may leave the placeholder out. */
  readonly optional?: boolean
}

interface Placeholder {
  /** Null for the open placeholder, whose content is given to `fill`. */
  readonly parts: readonly PromptPart[] | null
  readonly json: string | null
  readonly escapes: boolean
  readonly optional: boolean
}

/** Replaces the content of a conversation with placeholders while a template renders it. */
export class Placeholders {
  readonly #placeholders: Placeholder[] = []
  readonly #names = new Map<string, string>()

  put(parts: readonly PromptPart[], options: PlaceholderOptions = {}): string {
    return parts.length === 0 ? '' : this.#add(parts, options)
  }

  /** Returns a placeholder for a client's text. */
  text(text: string, options: PlaceholderOptions = {}): string {
    return this.put(untrusted(text), options)
  }

  /** Returns the same placeholder for the same text, because templates compare names. */
  name(text: string, json = JSON.stringify(text)): string {
    return getOrMake(this.#names, text, () => this.#add(untrusted(text), { json, optional: true }))
  }

  open(): string {
    return this.#add(null, {})
  }

  #add(parts: readonly PromptPart[] | null, options: PlaceholderOptions): string {
    const { json = null, escapes = json !== null, optional = false } = options
    this.#placeholders.push({ parts, json, escapes, optional })
    // All of the same length, so that a template that sorts them keeps their order.
    return `\uE000${String(this.#placeholders.length - 1).padStart(7, '0')}\uE001`
  }

  /** @throws ApiError 400 naming `param` when the template left out a required placeholder. */
  checkAllIn(rendered: string, param: string): void {
    const seen = new Set([...rendered.matchAll(new RegExp(PLACEHOLDER, 'g'))].map((match) => Number(match[1])))
    if (this.#placeholders.every(({ optional }, index) => optional || seen.has(index))) return
    throw invalidRequest("The model's chat template leaves out a part of this conversation", param)
  }

  fill(rendered: string, open: readonly PromptPart[] = []): PromptPart[] {
    // Splitting by a pattern with two groups yields a text, a placeholder's number and its letter in turn.
    const split = rendered.split(PLACEHOLDER)
    const every = (from: number) => split.filter((_, position) => position % 3 === from)
    const texts = every(0)
    const letters = every(2)
    const filled = every(1).map((number) => this.#placeholders[Number(number)]!)
    const contents = filled.map(({ parts, json, escapes }, i) => {
      if (json === null || !texts[i]!.endsWith('"') || !texts[i + 1]!.startsWith('"')) {
        return escapes ? written(parts ?? open, letters[i]!) : (parts ?? open)
      }
      texts[i] = texts[i]!.slice(0, -1)
      texts[i + 1] = texts[i + 1]!.slice(1)
      return untrusted(json)
    })
    const parts: PromptPart[] = []
    for (const [i, text] of texts.entries()) {
      // The template's and the client's JSON form one text, which must be tokenised as one.
      const head = i > 0 && filled[i - 1]!.json !== null ? text.length - FROM_FIRST_TOKEN.exec(text)![0].length : 0
      const tail = i < filled.length && filled[i]!.json !== null ? AFTER_LAST_TOKEN.exec(text)!.index : text.length
      for (const part of untrusted(text.slice(0, head))) append(parts, part)
      const middle = text.slice(head, Math.max(head, tail))
      if (middle !== '') append(parts, { type: 'text', text: middle, trusted: true })
      for (const part of untrusted(text.slice(Math.max(head, tail)))) append(parts, part)
      for (const part of contents[i] ?? []) append(parts, part)
    }
    return parts
  }
}

const ESCAPED: Readonly<Record<string, (text: string) => string>> = {
  j: (text) => JSON.stringify(text).slice(1, -1),
  r: (text) => pythonEscaped(text),
}

/** Escapes texts as the template escapes all texts at the placeholder's place. */
function written(parts: readonly PromptPart[], letter: string): readonly PromptPart[] {
  const escaped = ESCAPED[letter]
  if (escaped === undefined) return parts
  return parts.map((part) => (part.type === 'text' ? { ...part, text: escaped(part.text) } : part))
}

/** Matches the control tokens of all model families. */
const CONTROL_TOKEN = '<[^<>\\s]+>|\\[/?[A-Z_]+\\]'
const FROM_FIRST_TOKEN = new RegExp(`(?:(?:${CONTROL_TOKEN})[^]*)?$`)
const AFTER_LAST_TOKEN = new RegExp(`(?<=^|${CONTROL_TOKEN})(?:(?!${CONTROL_TOKEN})[^])*$`)

/** Converts a client's text to prompt parts. Lone surrogates, which JSON allows and UTF-8 does not, become U+FFFD. */
export function untrusted(text: string): PromptPart[] {
  return text === '' ? [] : [{ type: 'text', text: text.toWellFormed(), trusted: false }]
}

/** Appends a part. Adjacent texts with the same `trusted` become one, so that they are tokenised as one. */
function append(parts: PromptPart[], part: PromptPart): void {
  const last = parts.at(-1)
  if (part.type === 'text' && last?.type === 'text' && last.trusted === part.trusted) {
    parts[parts.length - 1] = { type: 'text', text: last.text + part.text, trusted: part.trusted }
  } else {
    parts.push(part)
  }
}
