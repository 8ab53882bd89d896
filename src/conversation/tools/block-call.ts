import { type CallReader, type CallStep, OPEN, REFUSED } from './syntax.ts'

export interface BlockCall {
  readonly name: string
  /** JSON text. */
  readonly arguments: string
}

export interface BlockCallOptions {
  readonly end: string
  /** Whether the end that follows this text is the call's own; by default the first one is. */
  readonly closes?: (text: string) => boolean
  /** @returns null for what is no call. */
  readonly translate: (text: string) => BlockCall | null
}

/** Reads calls whose arguments are not written as JSON: they are translated once the call is complete. */
export class BlockCallReader implements CallReader {
  readonly #options: BlockCallOptions
  #text = ''
  #searched = 0

  constructor(options: BlockCallOptions) {
    this.#options = options
  }

  push(text: string): CallStep {
    const { end, closes, translate } = this.#options
    this.#text += text
    for (;;) {
      const at = this.#text.indexOf(end, this.#searched)
      if (at === -1) {
        this.#searched = Math.max(this.#searched, this.#text.length - end.length + 1)
        return OPEN
      }
      const block = this.#text.slice(0, at)
      this.#searched = at + 1
      if (closes && !closes(block)) continue
      const call = translate(block)
      if (call === null) return REFUSED
      return {
        events: [
          { type: 'call', name: call.name },
          { type: 'arguments', text: call.arguments },
        ],
        state: { ended: this.#text.slice(at + end.length) },
      }
    }
  }
}

/** JSON text of an object of which the values are JSON texts. */
export function objectText(members: readonly (readonly [key: string, value: string])[]): string {
  return `{${members.map(([key, value]) => `${JSON.stringify(key)}: ${value}`).join(', ')}}`
}

/** Rules of XGrammar's EBNF for a text in which the mark (of ASCII characters) does not occur; the first is `name`. */
export function textWithout(mark: string, name: string): string {
  const known = [...new Set(mark)]
  const ranges = known.map((character) => `${byteEscape(character)}-${byteEscape(character)}`)
  // A class of one member would not be a class of bytes; see `Ebnf` of the local engine.
  const others = (ranges.length === 1 ? [...ranges, ...ranges] : ranges).join('')
  const rules = Array.from(mark, (_, matched) => {
    const steps = known.flatMap((character) => {
      const next = overlap(mark, mark.slice(0, matched) + character)
      return next === mark.length ? [] : [`"${byteEscape(character)}" ${ruleName(name, next)}`]
    })
    return `${ruleName(name, matched)} ::= (${['""', `[^${others}] ${name}`, ...steps].join(' | ')})`
  })
  return rules.join('\n')
}

function ruleName(name: string, matched: number): string {
  return matched === 0 ? name : `${name}_${matched}`
}

/** How much of the mark's beginning the text ends with. */
function overlap(mark: string, text: string): number {
  for (let length = Math.min(mark.length, text.length); length > 0; length--) {
    if (text.endsWith(mark.slice(0, length))) return length
  }
  return 0
}

/** A literal of XGrammar's EBNF. */
export function literalOf(text: string): string {
  return `"${Array.from(text, (character) => `\\U${character.codePointAt(0)!.toString(16).padStart(8, '0')}`).join('')}"`
}

function byteEscape(character: string): string {
  return `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`
}

/** Rules for values that look the same in every notation, and their names by type. */
export const SCALAR_RULES = `integer ::= ("" | "-") ("0" | [1-9] [0-9]{0,14})
number ::= integer ("" | "." [0-9]{1,15})
boolean ::= "true" | "false"`
export const SCALARS: Readonly<Partial<Record<string, string>>> = {
  integer: 'integer',
  number: 'number',
  boolean: 'boolean',
  null: '"null"',
}
