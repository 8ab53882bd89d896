import { parseJsonOr } from '../../lib/json/parse-json.ts'
import { type CallEvent, type CallReader, type CallStep, OPEN, REFUSED } from './syntax.ts'

/** The text before the arguments: the function's name, and the index at which the arguments begin. */
export type Header = { readonly name: string; readonly argumentsAt: number }
/** @returns 'more' when the text may still become a header, 'none' when it cannot. */
export type HeaderReader = (text: string) => Header | 'more' | 'none'

interface JsonCallOptions {
  readonly header: HeaderReader
  /** Ends the call after the arguments and optional blanks. */
  readonly end: string
  /** Reads a call of unusual form, for syntaxes in which every call has an end mark. */
  readonly whole?: (text: string) => readonly CallEvent[] | null
}

/** Reads calls whose arguments are JSON, and passes the arguments on as they arrive. */
export class JsonCallReader implements CallReader {
  readonly #options: JsonCallOptions
  #state: 'header' | 'arguments' | 'end' | 'whole' = 'header'
  #text = ''
  readonly #scan = new JsonScan()

  constructor(options: JsonCallOptions) {
    this.#options = options
  }

  push(text: string): CallStep {
    this.#text += text
    const events: CallEvent[] = []
    if (this.#state === 'header') {
      const header = this.#options.header(this.#text)
      if (header === 'more') return OPEN
      if (header === 'none') {
        if (!this.#options.whole) return REFUSED
        this.#state = 'whole'
      } else {
        events.push({ type: 'call', name: header.name })
        this.#text = this.#text.slice(header.argumentsAt)
        this.#state = 'arguments'
      }
    }
    if (this.#state === 'whole') return this.#readWhole()
    if (this.#state === 'arguments') {
      const length = this.#scan.push(this.#text)
      const taken = length ?? this.#text.length
      if (taken > 0) events.push({ type: 'arguments', text: this.#text.slice(0, taken) })
      this.#text = this.#text.slice(taken)
      if (length !== null) this.#state = 'end'
    }
    if (this.#state !== 'end') return { events, state: 'open' }
    // Other text before the end is not part of the arguments.
    const at = this.#text.indexOf(this.#options.end)
    return at === -1
      ? { events, state: 'open' }
      : { events, state: { ended: this.#text.slice(at + this.#options.end.length) } }
  }

  #readWhole(): CallStep {
    const { end, whole } = this.#options
    const at = this.#text.indexOf(end)
    if (at === -1) return OPEN
    const events = whole!(this.#text.slice(0, at))
    return events === null ? REFUSED : { events, state: { ended: this.#text.slice(at + end.length) } }
  }
}

/** Reads JSON that holds a list or a sequence of calls, once it is complete. */
export class JsonListReader implements CallReader {
  readonly #end: string
  readonly #callsOf: typeof callsIn
  readonly #calls: unknown[] = []
  #scan = new JsonScan()
  #value = ''
  #rest = ''

  /** @param end the mark after the list's JSON; empty for a list that ends with its JSON. */
  constructor(end: string, callsOf = callsIn) {
    this.#end = end
    this.#callsOf = callsOf
  }

  push(text: string): CallStep {
    this.#rest += text
    for (;;) {
      if (this.#value === '') {
        if (this.#calls.length > 0 && this.#end === '') return this.#finish(this.#rest)
        const start = this.#rest.trimStart()
        this.#rest = start
        if (this.#calls.length > 0 && start.startsWith(this.#end)) return this.#finish(start.slice(this.#end.length))
        if (start === '' || (this.#calls.length > 0 && this.#end.startsWith(start))) return OPEN
        if (!/^[{[]/.test(start)) return REFUSED
      }
      const length = this.#scan.push(this.#rest)
      this.#value += length === null ? this.#rest : this.#rest.slice(0, length)
      if (length === null) {
        this.#rest = ''
        return OPEN
      }
      this.#rest = this.#rest.slice(length)
      this.#calls.push(parseJsonOr(this.#value, undefined))
      this.#value = ''
      this.#scan = new JsonScan()
    }
  }

  #finish(rest: string): CallStep {
    const events = this.#callsOf(this.#calls.flat())
    return events === null ? REFUSED : { events, state: { ended: rest } }
  }
}

/** Finds the end of a JSON object in a text that is streamed. */
class JsonScan {
  #depth = 0
  #inString = false
  #escaped = false

  /** @returns how many characters of the text belong to the object if it ends in the text; null if it does not. */
  push(text: string): number | null {
    for (let at = 0; at < text.length; at++) {
      const character = text[at]
      if (this.#inString) {
        if (this.#escaped) this.#escaped = false
        else if (character === '\\') this.#escaped = true
        else if (character === '"') this.#inString = false
      } else if (character === '"') this.#inString = true
      else if (character === '{' || character === '[') this.#depth++
      else if ((character === '}' || character === ']') && --this.#depth === 0) return at + 1
    }
    return null
  }
}

/** Reads a header of the form `{"name": "f", "arguments": {`, or the rest of one. */
export function jsonHeader(
  text: string,
  { opened, key }: { readonly opened: boolean; readonly key: 'arguments' | 'parameters' },
): ReturnType<HeaderReader> {
  const steps = [...(opened ? [] : ['{', '"name"', ':']), STRING, ',', `"${key}"`, ':']
  let at = 0
  let name = ''
  const blanks = () => {
    while (/^[ \t\n\r]$/.test(text[at] ?? '')) at++
  }
  for (const step of steps) {
    blanks()
    if (typeof step === 'string') {
      const there = text.slice(at, at + step.length)
      if (there !== step) return step.startsWith(there) ? 'more' : 'none'
      at += step.length
      continue
    }
    step.lastIndex = at
    const found = step.exec(text)
    if (!found) return STRING_START.test(text.slice(at)) ? 'more' : 'none'
    const parsed = parseJsonOr(found[0], undefined)
    if (typeof parsed !== 'string') return 'none'
    name = parsed
    at += found[0].length
  }
  blanks()
  if (at === text.length) return 'more'
  return text[at] === '{' ? { name, argumentsAt: at } : 'none'
}

const STRING = /"(?:[^"\\]|\\.)*"/sy
const STRING_START = /^(?:"(?:[^"\\]|\\.)*\\?)?$/s

/** Returns the calls in a JSON value that holds one or a list of them, with keys in any order; null for other values. */
export function callsIn(value: unknown): CallEvent[] | null {
  const calls = Array.isArray(value) ? value : [value]
  const events = calls.flatMap((call): CallEvent[] => {
    if (typeof call !== 'object' || call === null) return []
    const { function: inner = call } = call as { readonly function?: unknown }
    const { name: own, tool_name: name = own, arguments: given, parameters } = Object(inner) as Record<string, unknown>
    // Some models write the arguments as a string that holds JSON.
    const written = given ?? parameters ?? {}
    const values = typeof written === 'string' ? parseJsonOr(written, undefined) : written
    if (typeof name !== 'string' || typeof values !== 'object' || values === null || Array.isArray(values)) return []
    return [
      { type: 'call', name },
      { type: 'arguments', text: JSON.stringify(values) },
    ]
  })
  return calls.length > 0 && events.length === 2 * calls.length ? events : null
}
