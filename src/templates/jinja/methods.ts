import { ArgumentsOf } from './arguments.ts'
import { formatValue, padded } from './operators.ts'
import {
  boolean,
  equal,
  FunctionValue,
  integer,
  isList,
  isMap,
  isString,
  iterate,
  keyOf,
  list,
  MapValue,
  NONE,
  string,
  textOf,
  toValue,
  tuple,
  UNDEFINED,
  type Value,
} from './values.ts'

type Method<Inner> = (self: Inner, given: ArgumentsOf) => Value

/** Python's white space. */
const SPACE = '\\s\\x1c-\\x1f\\x85'

/**
 * `str.strip`, `str.lstrip` and `str.rstrip`.
 * @param characters null for white space.
 */
export function strip(text: string, characters: string | null, sides: 'left' | 'right' | 'both' = 'both'): string {
  const set = characters === null ? SPACE : characters.replace(/[\\\]^-]/g, '\\$&')
  if (set === '') return text
  const left = sides === 'right' ? text : text.replace(new RegExp(`^[${set}]+`, 'u'), '')
  if (sides === 'left') return left
  // Without a regular expression for the whole: one anchored at the end would be tried at every character.
  const one = new RegExp(`^[${set}]$`, 'u')
  let end = left.length
  while (end > 0) {
    const begin = end - (end > 1 && left.codePointAt(end - 2)! > 0xffff ? 2 : 1)
    if (!one.test(left.slice(begin, end))) break
    end = begin
  }
  return left.slice(0, end)
}

const charactersOf = (given: ArgumentsOf) => given.optional(0, 'chars', isString)

/**
 * Whether the part of a text that the second and third argument select begins or ends with one of the affixes in the
 * first.
 */
function hasAffix(text: string, given: ArgumentsOf, has: (part: string, affix: string) => boolean): Value {
  const value = given.needed(0)
  const affixes = isList(value) ? value.value.map(textOf) : [given.text(0)]
  const part = partOf(text, given)?.part
  return boolean(part !== undefined && affixes.some((affix) => has(part, affix)))
}

/** The part `[start:end]` of a text, by the second and third argument; null if it starts after its end. */
function partOf(text: string, given: ArgumentsOf): { readonly part: string; readonly start: number } | null {
  if (given.positional.length < 2) return { part: text, start: 0 }
  const length = charactersIn(text)
  const placeOf = (at: number) => (at < 0 ? Math.max(0, at + length) : at)
  const start = placeOf(given.integer(1, 'start', 0))
  const end = Math.min(length, placeOf(given.integer(2, 'end', length)))
  if (start > end) return null
  const rest = text.slice(unitAt(text, start, length))
  return { part: end === length ? rest : rest.slice(0, unitAt(rest, end - start, length - start)), start }
}

/** The last counted text: templates search the same text many times. */
let counted = { text: '', length: 0 }

function charactersIn(text: string): number {
  if (counted.text !== text) counted = { text, length: countCharacters(text) }
  return counted.length
}

function countCharacters(text: string): number {
  return text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0)
}

/** The index of a character of a text in UTF-16 units, of which some characters have two. */
function unitAt(text: string, character: number, length: number): number {
  if (text.length === length) return character
  let unit = 0
  for (let left = character; left > 0; left--) unit += text.codePointAt(unit)! > 0xffff ? 2 : 1
  return unit
}

/** The index of a text in another one, in characters; -1 if it is not found. */
function placeIn(text: string, given: ArgumentsOf, find: (part: string, sought: string) => number): number {
  const sought = given.text(0)
  const within = partOf(text, given)
  const at = within === null ? -1 : find(within.part, sought)
  return at === -1 ? -1 : within!.start + countCharacters(within!.part.slice(0, at))
}
const firstOf = (part: string, sought: string) => part.indexOf(sought)
const lastOf = (part: string, sought: string) => part.lastIndexOf(sought)

function count(text: string, given: ArgumentsOf): number {
  const sought = given.text(0)
  const part = partOf(text, given)?.part
  if (part === undefined) return 0
  return sought === '' ? countCharacters(part) + 1 : part.split(sought).length - 1
}

/** Splits a text at most `most` times, from the left. */
function split(text: string, separator: string | null, most: number): readonly string[] {
  const pieces: string[] = []
  let rest = separator === null ? strip(text, null, 'left') : text
  while (separator !== null || rest !== '') {
    const match = separator === null ? new RegExp(`[${SPACE}]+`, 'u').exec(rest) : null
    const at = separator === null ? (match?.index ?? -1) : rest.indexOf(separator)
    if (at === -1 || pieces.length === most) {
      pieces.push(separator === null && at !== -1 && pieces.length !== most ? rest.slice(0, at) : rest)
      break
    }
    pieces.push(rest.slice(0, at))
    rest = rest.slice(at + (separator?.length ?? match![0].length))
  }
  return pieces
}

const reversed = (text: string) => [...text].reverse().join('')

function splitMethod(text: string, given: ArgumentsOf, fromRight: boolean): Value {
  const separator = given.optional(0, 'sep', isString)
  if (separator === '') throw new Error('empty separator')
  const most = given.integer(1, 'maxsplit', -1)
  const limit = most < 0 ? Number.POSITIVE_INFINITY : most
  if (!fromRight) return list(split(text, separator, limit).map(string))
  const pieces = split(reversed(text), separator === null ? null : reversed(separator), limit)
  return list(pieces.map((piece) => string(reversed(piece))).reverse())
}

function partition(text: string, separator: string, at: number, whole: 'first' | 'last'): Value {
  if (at === -1) return tuple((whole === 'first' ? [text, '', ''] : ['', '', text]).map(string))
  return tuple([text.slice(0, at), separator, text.slice(at + separator.length)].map(string))
}

/** `str.replace`. */
export function replaced(text: string, from: string, to: string, most: number): string {
  if (most < 0) return text.replaceAll(from, () => to)
  const pieces = text.split(from)
  const cut = Math.min(most, pieces.length - 1)
  return (
    pieces.slice(0, cut + 1).join(to) +
    pieces
      .slice(cut + 1)
      .map((piece) => from + piece)
      .join('')
  )
}

/** `str.format`. @throws Error for attributes, conversions and formats that it does not know. */
function formatted(text: string, given: ArgumentsOf): string {
  let next = 0
  let isNumbered = false
  return text.replace(/\{\{|\}\}|\{(\w*)(?::([^{}]*))?\}|[{}]/g, (match, name?: string, form = '') => {
    if (name === undefined && match.length === 1) throw new Error(`unsupported format in '${text}'`)
    if (name === undefined) return match[0]!
    isNumbered ||= /^\d+$/.test(name)
    if (isNumbered && (name === '' || next > 0)) throw new Error(`'${text}' numbers some of its fields only`)
    const value =
      name === '' ? given.needed(next++) : /^\d+$/.test(name) ? given.needed(Number(name)) : given.named(name)
    return formatValue(value, form)
  })
}

/** Capitalises the first letter of each word. */
const titled = (text: string) =>
  text.replace(/\p{L}+/gu, (word) => word[0]!.toUpperCase() + word.slice(1).toLowerCase())
export const capitalized = (text: string) => text.slice(0, 1).toUpperCase() + text.slice(1).toLowerCase()
/** Ends of lines for Python's `splitlines`. */
const LINE_END = `\\r\\n|[\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029]`
/** Between lines, keeping their ends. */
const LINE_BREAK = `(?<=[\\n\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029]|\\r(?!\\n))`
export const splitLines = (text: string) => text.replace(new RegExp(`(?:${LINE_END})$`), '').split(new RegExp(LINE_END))

const found = (at: number) => {
  if (at === -1) throw new Error('substring not found')
  return integer(at)
}
const isAll = (pattern: RegExp) => (text: string) => boolean(pattern.test(text))

const OF_STRINGS: Readonly<Record<string, Method<string>>> = {
  upper: (text) => string(text.toUpperCase()),
  lower: (text) => string(text.toLowerCase()),
  casefold: (text) => string(text.toLowerCase()),
  title: (text) => string(titled(text)),
  capitalize: (text) => string(capitalized(text)),
  strip: (text, given) => string(strip(text, charactersOf(given))),
  lstrip: (text, given) => string(strip(text, charactersOf(given), 'left')),
  rstrip: (text, given) => string(strip(text, charactersOf(given), 'right')),
  startswith: (text, given) => hasAffix(text, given, (part, affix) => part.startsWith(affix)),
  endswith: (text, given) => hasAffix(text, given, (part, affix) => part.endsWith(affix)),
  removeprefix: (text, given) => string(text.startsWith(given.text(0)) ? text.slice(given.text(0).length) : text),
  removesuffix: (text, given) =>
    string(text.endsWith(given.text(0)) ? text.slice(0, text.length - given.text(0).length) : text),
  split: (text, given) => splitMethod(text, given, false),
  rsplit: (text, given) => splitMethod(text, given, true),
  splitlines: (text, given) => {
    const lines = given.flag(0, 'keepends') ? text.split(new RegExp(LINE_BREAK)) : splitLines(text)
    return list(text === '' ? [] : lines.map(string))
  },
  partition: (text, given) => partition(text, given.text(0), text.indexOf(given.text(0)), 'first'),
  rpartition: (text, given) => partition(text, given.text(0), text.lastIndexOf(given.text(0)), 'last'),
  replace: (text, given) => string(replaced(text, given.text(0), given.text(1), given.integer(2, 'count', -1))),
  find: (text, given) => integer(placeIn(text, given, firstOf)),
  rfind: (text, given) => integer(placeIn(text, given, lastOf)),
  index: (text, given) => found(placeIn(text, given, firstOf)),
  rindex: (text, given) => found(placeIn(text, given, lastOf)),
  count: (text, given) => integer(count(text, given)),
  join: (text, given) => string(iterate(given.needed(0)).map(stringOf).join(text)),
  format: (text, given) => string(formatted(text, given)),
  zfill: (text, given) => string(padded(text, { align: '=', fill: '0', width: given.integer(0, 'width', 0) })),
  isdigit: isAll(/^\p{Nd}+$/u),
  isdecimal: isAll(/^\p{Nd}+$/u),
  isnumeric: isAll(/^\p{N}+$/u),
  isalpha: isAll(/^\p{L}+$/u),
  isalnum: isAll(/^[\p{L}\p{N}]+$/u),
  isspace: isAll(new RegExp(`^[${SPACE}]+$`, 'u')),
  isupper: (text) => boolean(/\p{Lu}/u.test(text) && !/\p{Ll}/u.test(text)),
  islower: (text) => boolean(/\p{Ll}/u.test(text) && !/\p{Lu}/u.test(text)),
}

function stringOf(value: Value): string {
  if (!isString(value)) throw new Error('join() needs strings')
  return value.value
}

const OF_MAPS: Readonly<Record<string, Method<ReadonlyMap<unknown, Value>>>> = {
  get: (self, given) => self.get(keyOf(given.needed(0))) ?? given.at(1, 'default') ?? NONE,
  items: (self) => itemsOf(self),
  keys: (self) => list([...self.keys()].map(toValue)),
  values: (self) => list([...self.values()]),
  copy: (self) => new MapValue(new Map(self) as never),
}

export function itemsOf(entries: ReadonlyMap<unknown, Value>): Value {
  return list([...entries].map(([key, value]) => tuple([toValue(key), value])))
}

const OF_LISTS: Readonly<Record<string, Method<Value[]>>> = {
  count: (self, given) => integer(self.filter((item) => equal(item, given.needed(0))).length),
  index: (self, given) => {
    if (given.positional.length > 1) throw new Error('index of a list takes no start')
    return found(self.findIndex((item) => equal(item, given.needed(0))))
  },
  copy: (self) => list([...self]),
  append: (self, given) => changed(() => self.push(given.needed(0))),
  extend: (self, given) => changed(() => self.push(...iterate(given.needed(0)))),
  insert: (self, given) => changed(() => self.splice(given.integer(0, 'index', 0), 0, given.needed(1))),
  pop: (self, given) => {
    const [item] = self.splice(given.integer(0, 'index', -1), 1)
    if (item === undefined) throw new Error('pop index out of range')
    return item
  },
}

function changed(change: () => unknown): Value {
  change()
  return NONE
}

/**
 * A method of a value. Lists can be changed: Transformers' sandbox forbids that, but llama.cpp does not, and templates
 * in GGUF files rely on it.
 */
export function methodOf(value: Value, name: string): Value {
  if (isString(value)) return bound(OF_STRINGS, name, value.value)
  if (isMap(value)) return bound(OF_MAPS, name, value.value)
  if (isList(value)) return bound(OF_LISTS, name, value.value as Value[])
  return UNDEFINED
}

function bound<Inner>(methods: Readonly<Record<string, Method<Inner>>>, name: string, self: Inner): Value {
  if (!Object.hasOwn(methods, name)) return UNDEFINED
  const method = methods[name]!
  return new FunctionValue((args) => {
    if (method.length < 2 && args.length > 0) throw new Error(`${name} takes no arguments here`)
    return method(self, ArgumentsOf.call(name, args))
  })
}
