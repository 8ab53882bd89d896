import { type BlockCall, BlockCallReader, objectText } from './block-call.ts'
import { type CallLayout, callConstraint } from './call-layout.ts'
import type { ToolSyntax } from './syntax.ts'

const BEGIN = '<|tool_call>'
const END = '<tool_call|>'
const QUOTE = '<|"|>'

const LAYOUT: CallLayout = {
  trigger: BEGIN,
  head: (name) => [`${BEGIN}call:${name}`],
  tail: END,
  notation: { quote: QUOTE, without: [END] },
}

/** `<|tool_call>call:f{x:<|"|>text<|"|>,y:[1,2]}<tool_call|>`: Gemma 4. */
export const gemma: ToolSyntax = {
  begin: BEGIN,
  marks: [BEGIN, END, QUOTE, '<|tool_response>', '<tool_response|>', '<|tool>', '<tool|>'],
  readCall: () => new BlockCallReader({ end: END, translate }),
  constraint: (tools, single) => callConstraint(LAYOUT, tools, single),
}

function translate(text: string): BlockCall[] | null {
  const call = /^\s*call:([^{\s]+)\s*(?=\{)/.exec(text)
  if (!call) return null
  const notation = new Notation(text.slice(call[0].length))
  const values = notation.whole()
  return values === null ? null : [{ name: call[1]!, arguments: values }]
}

/** Turns the notation into JSON text. */
class Notation {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  whole(): string | null {
    const value = this.#value(0)
    this.#blanks()
    return this.#at === this.#text.length ? value : null
  }

  #value(depth: number): string | null {
    this.#blanks()
    if (depth > DEEPEST) return null
    if (this.#take('{')) return this.#object(depth)
    if (this.#take('[')) return this.#list(depth)
    if (this.#take(QUOTE)) return this.#quoted(QUOTE)
    if (this.#take('"')) return this.#quoted('"')
    const plain = this.#match(/[^,[\]{}\s]+/y)
    if (plain === null) return null
    return PLAIN_JSON.test(plain) ? plain : JSON.stringify(plain)
  }

  #object(depth: number): string | null {
    const members: [string, string][] = []
    for (;;) {
      this.#blanks()
      if (this.#take('}')) return objectText([...new Map(members)])
      if (members.length > 0 && !this.#take(',')) return null
      this.#blanks()
      const key = this.#take(QUOTE) ? unquoted(this.#quoted(QUOTE)) : this.#match(/[^:,{}[\]\s]+/y)
      this.#blanks()
      if (key === null || !this.#take(':')) return null
      const value = this.#value(depth + 1)
      if (value === null) return null
      members.push([key, value])
    }
  }

  #list(depth: number): string | null {
    const items: string[] = []
    for (;;) {
      this.#blanks()
      if (this.#take(']')) return `[${items.join(', ')}]`
      if (items.length > 0 && !this.#take(',')) return null
      const item = this.#value(depth + 1)
      if (item === null) return null
      items.push(item)
    }
  }

  #quoted(quote: string): string | null {
    const end = this.#text.indexOf(quote, this.#at)
    if (end === -1) return null
    const text = this.#text.slice(this.#at, end)
    this.#at = end + quote.length
    return JSON.stringify(text)
  }

  #take(mark: string): boolean {
    if (!this.#text.startsWith(mark, this.#at)) return false
    this.#at += mark.length
    return true
  }

  #match(pattern: RegExp): string | null {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)
    if (!found) return null
    this.#at += found[0].length
    return found[0]
  }

  #blanks(): void {
    this.#match(/\s*/y)
  }
}

const DEEPEST = 200
const PLAIN_JSON = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/

function unquoted(json: string | null): string | null {
  return json === null ? null : JSON.parse(json)
}
