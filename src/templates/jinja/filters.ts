import { ArgumentsOf } from './arguments.ts'
import { capitalized, itemsOf, replaced, splitLines, strip } from './methods.ts'
import { percentFormat } from './operators.ts'
import { testNamed } from './tests.ts'
import {
  boolean,
  compare,
  equal,
  FloatValue,
  integer,
  isFloat,
  isList,
  isMap,
  isNumber,
  isString,
  isTrue,
  isUndefined,
  iterate,
  type JsonForm,
  jsonOf,
  list,
  string,
  textOf,
  UNDEFINED,
  type Value,
} from './values.ts'

export type Filter = (value: Value, given: ArgumentsOf) => Value

const onText =
  (change: (text: string) => string): Filter =>
  (value) =>
    string(change(textOf(value)))

/** Filters compare text case-insensitively by default. */
function sortKey(value: Value, isCaseSensitive: boolean): Value {
  return isString(value) && !isCaseSensitive ? string(value.value.toLowerCase()) : value
}

/** The attribute `a.b.0` of a value. */
function attributeOf(value: Value, path: string): Value {
  return path.split('.').reduce((inner, name): Value => {
    if (isMap(inner) || inner.type === 'NamespaceValue')
      return (inner.value as Map<string, Value>).get(name) ?? UNDEFINED
    return (isList(inner) ? inner.value[Number(name)] : undefined) ?? UNDEFINED
  }, value)
}

/** Returns a function that reads what `attribute=` names. */
function reader(given: ArgumentsOf, index: number): (value: Value) => Value {
  const attribute = given.at(index, 'attribute')
  return attribute === undefined ? (value) => value : (value) => attributeOf(value, textOf(attribute))
}

function sorted(values: readonly Value[], key: (value: Value) => Value, reverse: boolean): Value[] {
  // Python keeps the order of equal values when it sorts in reverse.
  return [...values].sort((left, right) => (reverse ? -1 : 1) * compare(key(left), key(right)))
}

function best(value: Value, given: ArgumentsOf, sign: 1 | -1): Value {
  const read = reader(given, 1)
  const key = (item: Value) => sortKey(read(item), given.flag(0, 'case_sensitive'))
  return iterate(value).reduce(
    (least, item) => (sign * compare(key(item), key(least)) < 0 ? item : least),
    iterate(value)[0] ?? UNDEFINED,
  )
}

/** @param from index of the argument with the test's name, before the test's own. */
function chosen(value: Value, given: ArgumentsOf, { by, keeps }: { by: 'value' | 'attribute'; keeps: boolean }): Value {
  const from = by === 'attribute' ? 1 : 0
  const read = by === 'attribute' ? (item: Value) => attributeOf(item, textOf(given.needed(0))) : (item: Value) => item
  const name = given.positional[from]
  const test = name === undefined ? isTrue : testNamed(textOf(name))
  // Python does not examine empty values.
  if (!isTrue(value)) return list([])
  const more = given.positional.slice(from + 1)
  return list(iterate(value).filter((item) => test(read(item), ...more) === keeps))
}

function mapped(value: Value, given: ArgumentsOf): Value {
  if (!isTrue(value)) return list([])
  const [name, ...rest] = given.positional
  if (name === undefined) {
    const path = textOf(given.named('attribute'))
    const fallback = given.namedOnes.get('default') ?? UNDEFINED
    const read = (item: Value) => {
      const found = attributeOf(item, path)
      return isUndefined(found) ? fallback : found
    }
    return list(iterate(value).map(read))
  }
  const filter = filterNamed(textOf(name))
  return list(iterate(value).map((item) => filter(item, new ArgumentsOf(textOf(name), rest, given.namedOnes))))
}

function jsonForm(given: ArgumentsOf): JsonForm {
  const indent = given.at(1, 'indent')
  const step = indent !== undefined && isNumber(indent) ? ' '.repeat(Number(indent.value)) : null
  const text = indent !== undefined && isString(indent) ? indent.value : step
  const separators = given.optional(2, 'separators', isList)?.map(textOf)
  return {
    ascii: given.flag(0, 'ensure_ascii'),
    indent: text,
    separators: separators === undefined ? [text === null ? ', ' : ',', ': '] : [separators[0]!, separators[1]!],
    sorted: given.flag(3, 'sort_keys'),
  }
}

function indented(text: string, given: ArgumentsOf): string {
  const width = given.at(0, 'width')
  const indent = width !== undefined && isString(width) ? width.value : ' '.repeat(given.integer(0, 'width', 4))
  const isBlank = given.flag(2, 'blank')
  const [first = '', ...rest] = splitLines(`${text}\n`)
  const lines = [first, ...rest.map((line) => (line === '' && !isBlank ? line : indent + line))]
  return (given.flag(1, 'first') ? indent : '') + lines.join('\n')
}

function numberOf(value: Value, given: ArgumentsOf, kind: 'int' | 'float'): Value {
  const fallback = given.at(0, 'default') ?? integer(0)
  const text = isString(value) ? strip(value.value, null) : null
  const isNumeric = text === null ? isNumber(value) : /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)
  if (!isNumeric) return kind === 'float' && given.at(0, 'default') === undefined ? new FloatValue(0) : fallback
  const number = Number(text ?? value.value)
  return kind === 'int' ? integer(Math.trunc(number)) : new FloatValue(number)
}

function rounded(value: Value, given: ArgumentsOf): Value {
  const factor = 10 ** given.integer(0, 'precision', 0)
  const method = textOf(given.at(1, 'method') ?? string('common'))
  const scaled = Number(value.value) * factor
  const half = Math.abs(scaled % 1) === 0.5
  const common = half ? 2 * Math.round(scaled / 2) : Math.round(scaled)
  return new FloatValue(
    (method === 'ceil' ? Math.ceil(scaled) : method === 'floor' ? Math.floor(scaled) : common) / factor,
  )
}

const length: Filter = (value) => integer(iterate(value).length)
const otherwise: Filter = (value, given) => {
  const isMissing = isUndefined(value) || (given.flag(1, 'boolean') && !isTrue(value))
  return isMissing ? (given.at(0, 'default_value') ?? string('')) : value
}
const ESCAPED: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&#34;', "'": '&#39;' }
const escaped = onText((text) => text.replace(/[&<>"']/g, (character) => ESCAPED[character]!))

/** The filters of Jinja that templates use, and `tojson` as in Transformers. */
const FILTERS: Readonly<Record<string, Filter>> = {
  abs: (value) =>
    isFloat(value) ? new FloatValue(Math.abs(value.value as number)) : integer(Math.abs(Number(value.value))),
  capitalize: onText(capitalized),
  count: length,
  d: otherwise,
  default: otherwise,
  dictsort: (value, given) => {
    const at = textOf(given.at(1, 'by') ?? string('key')) === 'value' ? 1 : 0
    const key = (pair: Value) => sortKey((pair.value as readonly Value[])[at]!, given.flag(0, 'case_sensitive'))
    return list(sorted(iterate(itemsOf(entriesOf(value))), key, given.flag(2, 'reverse')))
  },
  e: escaped,
  escape: escaped,
  first: (value) => iterate(value)[0] ?? UNDEFINED,
  float: (value, given) => numberOf(value, given, 'float'),
  format: (value, given) => {
    if (given.namedOnes.size > 0) throw new Error('format takes no names')
    return string(percentFormat(textOf(value), given.positional))
  },
  indent: (value, given) => string(indented(textOf(value), given)),
  int: (value, given) => numberOf(value, given, 'int'),
  items: (value) => (isUndefined(value) ? list([]) : itemsOf(entriesOf(value))),
  join: (value, given) => {
    const read = reader(given, 1)
    return string(
      iterate(value)
        .map((item) => textOf(read(item)))
        .join(textOf(given.at(0, 'd') ?? string(''))),
    )
  },
  last: (value) => iterate(value).at(-1) ?? UNDEFINED,
  length,
  list: (value) => list(iterate(value)),
  lower: onText((text) => text.toLowerCase()),
  map: mapped,
  max: (value, given) => best(value, given, -1),
  min: (value, given) => best(value, given, 1),
  reject: (value, given) => chosen(value, given, { by: 'value', keeps: false }),
  rejectattr: (value, given) => chosen(value, given, { by: 'attribute', keeps: false }),
  replace: (value, given) =>
    string(replaced(textOf(value), textOf(given.needed(0)), textOf(given.needed(1)), given.integer(2, 'count', -1))),
  reverse: (value) =>
    isString(value) ? string([...value.value].reverse().join('')) : list([...iterate(value)].reverse()),
  round: rounded,
  safe: (value) => value,
  select: (value, given) => chosen(value, given, { by: 'value', keeps: true }),
  selectattr: (value, given) => chosen(value, given, { by: 'attribute', keeps: true }),
  sort: (value, given) => {
    const read = reader(given, 2)
    const key = (item: Value) => sortKey(read(item), given.flag(1, 'case_sensitive'))
    return list(sorted(iterate(value), key, given.flag(0, 'reverse')))
  },
  string: (value) => string(textOf(value)),
  sum: (value, given) => {
    const numbers = iterate(value).map(reader(given, 0))
    const total = numbers.reduce((sum, { value: number }) => sum + Number(number), given.integer(1, 'start', 0))
    return numbers.some((number) => isFloat(number)) ? new FloatValue(total) : integer(total)
  },
  title: onText((text) =>
    text
      .split(/([-\s({[<]+)/)
      .map((word) => word.slice(0, 1).toUpperCase() + word.slice(1).toLowerCase())
      .join(''),
  ),
  tojson: (value, given) => string(jsonOf(value, jsonForm(given))),
  trim: (value, given) => string(strip(textOf(value), given.optional(0, 'chars', isString))),
  unique: (value, given) => {
    const read = reader(given, 1)
    const key = (item: Value) => sortKey(read(item), given.flag(0, 'case_sensitive'))
    const items = iterate(value)
    return list(items.filter((item, i) => items.findIndex((other) => equal(key(other), key(item))) === i))
  },
  upper: onText((text) => text.toUpperCase()),
}

function entriesOf(value: Value): ReadonlyMap<unknown, Value> {
  if (!isMap(value)) throw new Error('Can only get item pairs from a mapping')
  return value.value
}

/**
 * @param name of a filter; `is x` and `is not x` for a test that is called as a filter.
 * @throws Error for an unknown name.
 */
export function filterNamed(name: string): Filter {
  const test = /^is (not )?(\w+)$/.exec(name)
  if (test !== null)
    return (value, given) => boolean(testNamed(test[2]!)(value, ...given.positional) === (test[1] === undefined))
  if (!Object.hasOwn(FILTERS, name)) throw new Error(`No filter named '${name}'`)
  return FILTERS[name]!
}
