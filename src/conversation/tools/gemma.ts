import { type BlockCall, BlockCallReader, objectText } from './block-call.ts'
import { type CallLayout, callConstraint } from './call-layout.ts'
import { DEEPEST, NotationReader } from './notation-reader.ts'
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
  const notation = new GemmaValues(text.slice(call[0].length))
  const values = notation.whole()
  return values === null ? null : [{ name: call[1]!, arguments: values }]
}

/** Converts the notation to JSON text. */
class GemmaValues extends NotationReader {
  whole(): string | null {
    const value = this.#value(0)
    return this.isAtEnd() ? value : null
  }

  #value(depth: number): string | null {
    if (depth > DEEPEST) return null
    if (this.take('{')) {
      const members = this.items('}', () => this.#member(depth), false)
      return members && objectText([...new Map(members)])
    }
    if (this.take('[')) {
      const items = this.items(']', () => this.#value(depth + 1), false)
      return items && `[${items.join(', ')}]`
    }
    if (this.take(QUOTE)) return this.#quoted(QUOTE)
    if (this.take('"')) return this.#quoted('"')
    this.match(/\s*/y)
    const plain = this.match(/[^,[\]{}\s]+/y)
    if (plain === null) return null
    return PLAIN_JSON.test(plain) ? plain : JSON.stringify(plain)
  }

  #member(depth: number): [string, string] | null {
    this.match(/\s*/y)
    const key = this.take(QUOTE) ? unquoted(this.#quoted(QUOTE)) : this.match(/[^:,{}[\]\s]+/y)
    if (key === null || !this.take(':')) return null
    const value = this.#value(depth + 1)
    return value === null ? null : [key, value]
  }

  #quoted(quote: string): string | null {
    const end = this.text.indexOf(quote, this.at)
    if (end === -1) return null
    const text = this.text.slice(this.at, end)
    this.at = end + quote.length
    return JSON.stringify(text)
  }
}

const PLAIN_JSON = /^(?:true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)$/

function unquoted(json: string | null): string | null {
  return json === null ? null : JSON.parse(json)
}
