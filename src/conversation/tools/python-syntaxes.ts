import { parseJsonOr } from '../../lib/json/parse-json.ts'
import { rawMembers } from '../../lib/json/raw-json.ts'
import { type BlockCall, BlockCallReader, objectText } from './block-call.ts'
import { type CallLayout, callConstraint } from './call-layout.ts'
import { DEEPEST, NotationReader } from './notation-reader.ts'
import type { ToolSyntax, WrittenCall } from './syntax.ts'

interface Options {
  readonly begin: string
  readonly end: string
  readonly marks: readonly string[]
  /** The text around and between the calls, within the marks. */
  readonly list: readonly [open: string, between: string, close: string]
}

/** A syntax that writes calls as in Python, with keyword arguments. */
function pythonic({ begin, end, marks, list: [open, between, close] }: Options): ToolSyntax {
  const layout: CallLayout = {
    trigger: begin,
    section: { begin: begin + open, between, end: close + end },
    head: (name) => [`${name}(`],
    tail: ')',
    notation: { without: [end], keywords: true },
  }
  return {
    begin,
    marks: [begin, end, ...marks],
    readCall: () => new BlockCallReader({ end, translate: (text) => new PythonCalls(text).read() }),
    constraint: (tools, single) => callConstraint(layout, tools, single),
    write: (calls) => [
      { type: 'text', text: begin + open, trusted: true },
      { type: 'text', text: calls.map(pythonCall).join(between), trusted: false },
      { type: 'text', text: close + end, trusted: true },
    ],
  }
}

/** `<|tool_call_start|>[f(x=1, y="text")]<|tool_call_end|>`: LFM2. */
export const lfm2 = pythonic({
  begin: '<|tool_call_start|>',
  end: '<|tool_call_end|>',
  marks: ['<|tool_list_start|>', '<|tool_list_end|>', '<|tool_response_start|>', '<|tool_response_end|>'],
  list: ['[', ', ', ']'],
})

/** `<function_calls>f(x=1, y="text")</function_calls>`, with a line for each call: OLMo 3. */
export const olmo3 = pythonic({
  begin: '<function_calls>',
  end: '</function_calls>',
  marks: [],
  list: ['', '\n', ''],
})

/** JSON literals are kept, because the templates of these models write them too. */
function pythonCall({ name, arguments: given }: WrittenCall): string {
  const members = parseJsonOr(given, undefined) === undefined ? null : rawMembers(given)
  const written = members?.map(({ key, value }) => `${key}=${value}`).join(', ') ?? given
  return `${name}(${written})`.toWellFormed()
}

const WORDS: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' }
const NUMBER = /^[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/

/** Converts calls in Python to JSON text. It reads JSON literals too, because some models have learnt to write them. */
class PythonCalls extends NotationReader {
  /** @returns null for text that is not a list of calls. */
  read(): BlockCall[] | null {
    const calls: BlockCall[] = []
    const isList = this.take('[')
    for (;;) {
      const call = this.#call()
      if (call === null) return null
      calls.push(call)
      const goesOn = this.take(',') || !isList
      if (isList && this.take(']')) break
      if (!goesOn) return null
      if (this.isAtEnd()) break
    }
    return this.isAtEnd() ? calls : null
  }

  #call(): BlockCall | null {
    this.match(/\s*/y)
    const name = this.match(/[^\s(),=[\]{}'"]+/y)
    if (name === null || !this.take('(')) return null
    const members = this.items(')', () => this.#pair(/[^\s=,()[\]{}'"]+/y, '=', 0), true)
    return members === null ? null : { name, arguments: objectText([...new Map(members)]) }
  }

  /** A name and a value. */
  #pair(pattern: RegExp, separator: string, depth: number): readonly [string, string] | null {
    this.match(/\s*/y)
    const quoted = this.#string()
    const name = quoted ?? this.match(pattern)
    if (name === null || !this.take(separator)) return null
    const value = this.#value(depth + 1)
    return value === null ? null : [name, value]
  }

  #value(depth: number): string | null {
    if (depth > DEEPEST) return null
    this.match(/\s*/y)
    const text = this.#string()
    if (text !== null) return JSON.stringify(text)
    if (this.take('{')) {
      const members = this.items('}', () => this.#pair(/[^\s:,()[\]{}'"]+/y, ':', depth), true)
      return members === null ? null : objectText([...new Map(members)])
    }
    for (const [open, close] of ['[]', '()'].map(([...pair]) => pair as [string, string])) {
      if (!this.take(open)) continue
      const items = this.items(close, () => this.#value(depth + 1), true)
      return items === null ? null : `[${items.join(', ')}]`
    }
    const word = this.match(/[^\s,()[\]{}'":=]+/y)
    if (word === null) return null
    if (Object.hasOwn(WORDS, word)) return WORDS[word]!
    if (['true', 'false', 'null'].includes(word)) return word
    return NUMBER.test(word) ? numberText(word) : JSON.stringify(word)
  }

  /** Returns null if no string begins here. */
  #string(): string | null {
    const quote = this.take("'") ? "'" : this.take('"') ? '"' : null
    if (quote === null) return null
    let text = ''
    while (this.at < this.text.length) {
      const character = this.text[this.at++]!
      if (character === '\\') text += this.#escape()
      else if (character !== quote || !this.#mayEndString()) text += character
      else return text
    }
    return null
  }

  /** Some models do not escape quotes in strings. */
  #mayEndString(): boolean {
    const rest = /\s*(?:[,:)\]}=]|$)/y
    rest.lastIndex = this.at
    return rest.test(this.text)
  }

  #escape(): string {
    const code = this.match(/x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|[0-7]{1,3}|./sy) ?? ''
    if (code.length > 1 || /^[0-7]$/.test(code)) {
      const point = /^[xuU]/.test(code) ? Number.parseInt(code.slice(1), 16) : Number.parseInt(code, 8)
      return point <= 0x10ffff ? String.fromCodePoint(point) : ''
    }
    return ESCAPES[code] ?? `\\${code}`
  }
}

const ESCAPES: Readonly<Record<string, string>> = {
  ...{ n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', a: '\x07', v: '\v' },
  ...{ '\\': '\\', "'": "'", '"': '"', '/': '/', '\n': '' },
}

/** Converts a Python number to JSON. It keeps the digits if JSON allows them. */
function numberText(word: string): string {
  const digits = word.replaceAll('_', '')
  if (/^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(digits)) return digits
  const value = Number(digits)
  return Number.isFinite(value) ? JSON.stringify(value) : JSON.stringify(word)
}
