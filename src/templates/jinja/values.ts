import { Environment, Interpreter, parse, tokenize } from '@huggingface/jinja'

/** A value of the library's interpreter. */
export interface Value<Inner = unknown> {
  readonly type: string
  readonly value: Inner
  __bool__(): { readonly value: boolean }
}

/** The variables of one part of a template; it also sees those of the enclosing parts. */
export interface Scope {
  readonly variables: ReadonlyMap<string, Value>
  setVariable(name: string, value: Value): Value
  lookupVariable(name: string): Value
}
export const newScope = (parent?: Scope): Scope => new Environment(parent as never) as unknown as Scope

/** A key of a mapping. */
export type Key = string | number | boolean | null
export type Call = (args: readonly Value[], scope: Scope) => Value
type ClassOf<Inner> = new (value?: Inner) => Value<Inner>

// The library does not export its value classes, so they are taken from values that it creates.
const scope = new Environment()
function classOf<Inner>(sample: unknown): ClassOf<Inner> {
  return scope.set(`v${scope.variables.size}`, sample).constructor as unknown as ClassOf<Inner>
}
const IntegerValue = classOf<number>(1)
export const FloatValue = classOf<number>(0.5)
const StringValue = classOf<string>('')
const BooleanValue = classOf<boolean>(true)
const NullValue = classOf<null>(null)
const UndefinedValue = classOf<undefined>(undefined)
const ListValue = classOf<readonly Value[]>([])
export const MapValue = classOf<Map<Key, Value>>({})
export const FunctionValue = classOf<Call>(() => null)
new Interpreter(scope).run(parse(tokenize('{% set pair = (1, 2) %}')))
/** A list that is printed as a tuple. */
const TupleValue = scope.lookupVariable('pair').constructor as unknown as typeof ListValue

export const UNDEFINED = new UndefinedValue()
export const NONE = new NullValue(null)
export const string = (text: string) => new StringValue(text)
export const integer = (number: number) => new IntegerValue(number)
export const boolean = (is: boolean) => new BooleanValue(is)
export const list = (items: readonly Value[]) => new ListValue(items)
export const tuple = (items: readonly Value[]) => new TupleValue(items)

const isA =
  <Inner>(Class: ClassOf<Inner>) =>
  (value: Value): value is Value<Inner> =>
    value instanceof Class
export const isString = isA(StringValue)
export const isInteger = isA(IntegerValue)
export const isFloat = isA(FloatValue)
export const isBoolean = isA(BooleanValue)
export const isNone = isA(NullValue)
export const isUndefined = isA(UndefinedValue)
export const isList = isA(ListValue)
const isTuple = isA(TupleValue)
export const isMap = isA(MapValue)
export const isFunction = isA(FunctionValue)
export const isNumber = (value: Value): value is Value<number | boolean> =>
  isInteger(value) || isFloat(value) || isBoolean(value)
export const isTrue = (value: Value): boolean => value.__bool__().value

/** Converts JSON values, and functions on values. */
export function toValue(given: unknown): Value {
  switch (typeof given) {
    case 'string':
      return string(given)
    case 'number':
      return Number.isInteger(given) ? integer(given) : new FloatValue(given)
    case 'boolean':
      return boolean(given)
    case 'function':
      return new FunctionValue(given as Call)
    case 'undefined':
      return UNDEFINED
  }
  if (given === null) return NONE
  if (Array.isArray(given)) return list(given.map(toValue))
  return new MapValue(new Map(Object.entries(given as object).map(([key, inner]) => [key, toValue(inner)])))
}

/** @throws Error for values that Python cannot hash. */
export function keyOf(value: Value): Key {
  if (isString(value) || isNumber(value) || isNone(value)) return value.value as Key
  throw new Error(`unhashable type: ${nameOf(value)}`)
}

/**
 * The items that a loop iterates over.
 * @throws Error for values that Python does not iterate over.
 */
export function iterate(value: Value): readonly Value[] {
  if (isList(value)) return value.value
  if (isMap(value)) return [...value.value.keys()].map(toValue)
  if (isString(value)) return [...value.value].map(string)
  if (isUndefined(value)) return []
  throw new Error(`${nameOf(value)} is not iterable`)
}

export function equal(left: Value, right: Value): boolean {
  if (isNumber(left) && isNumber(right)) return Number(left.value) === Number(right.value)
  if (isList(left) && isList(right)) {
    const others = right.value
    return left.value.length === others.length && left.value.every((item, i) => equal(item, others[i]!))
  }
  if (isMap(left) && isMap(right)) {
    const others = right.value
    return (
      left.value.size === others.size && [...left.value].every(([k, v]) => others.has(k) && equal(v, others.get(k)!))
    )
  }
  return left.constructor === right.constructor && left.value === right.value
}

/**
 * Negative, 0 or positive.
 * @throws Error for values that Python does not order.
 */
export function compare(left: Value, right: Value): number {
  if (isNumber(left) && isNumber(right)) return Number(left.value) - Number(right.value)
  if (isString(left) && isString(right)) return left.value === right.value ? 0 : left.value < right.value ? -1 : 1
  if (isList(left) && isList(right)) {
    const others = right.value
    const at = left.value.findIndex((item, i) => others[i] === undefined || !equal(item, others[i]))
    if (at === -1) return left.value.length - others.length
    return others[at] === undefined ? 1 : compare(left.value[at]!, others[at])
  }
  throw new Error(`${nameOf(left)} and ${nameOf(right)} cannot be ordered`)
}

/** Python's `str`. */
export function textOf(value: Value): string {
  return isString(value) ? value.value : isUndefined(value) ? '' : repr(value)
}

/**
 * A placeholder for a client's text. If a template writes it as JSON or as Python's `repr`, a letter is added: the
 * client's text must then be written in the same form.
 */
const PLACEHOLDER = /\uE000(\d+)\uE001/g
const MARKED = { json: '\uE000$1j\uE001', repr: '\uE000$1r\uE001' } as const

/** Python's `repr`. */
function repr(value: Value): string {
  if (isString(value)) return quoted(value.value)
  if (isNone(value)) return 'None'
  if (isBoolean(value)) return value.value ? 'True' : 'False'
  if (isFloat(value)) return floatText(value.value as number)
  if (isUndefined(value)) return 'Undefined'
  if (isList(value)) {
    const items = value.value.map(repr)
    if (!isTuple(value)) return `[${items.join(', ')}]`
    return items.length === 1 ? `(${items[0]},)` : `(${items.join(', ')})`
  }
  if (isMap(value))
    return `{${[...value.value].map(([key, inner]) => `${repr(toValue(key))}: ${repr(inner)}`).join(', ')}}`
  return isFunction(value) ? '<function>' : String(value.value)
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }
/** Placeholders are written with private-use characters, and are kept. */
const UNPRINTABLE = /\\|(?! )[\p{Cc}\p{Cf}\p{Cs}\p{Cn}\p{Z}]/gu

function quoted(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'"
  return (mark + pythonEscaped(text, mark) + mark).replace(PLACEHOLDER, MARKED.repr)
}

/** The text between the quotation marks of Python's `repr`. */
export function pythonEscaped(text: string, mark = "'"): string {
  const escaped = text.replace(UNPRINTABLE, (character) => {
    const code = character.codePointAt(0)!
    const [letter, length] = code < 0x100 ? ['x', 2] : code < 0x1_0000 ? ['u', 4] : ['U', 8]
    return ESCAPES[character] ?? `\\${letter}${code.toString(16).padStart(Number(length), '0')}`
  })
  return mark === "'" ? escaped.replaceAll("'", "\\'") : escaped
}

/** The shortest digits, which both languages determine alike, in Python's spelling. */
function floatText(number: number): string {
  if (Number.isNaN(number)) return 'nan'
  if (!Number.isFinite(number)) return number < 0 ? '-inf' : 'inf'
  const [digits, exponent] = number.toExponential().split('e') as [string, string]
  const power = Number(exponent)
  if (number !== 0 && (power < -4 || power >= 16)) {
    return `${digits}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`
  }
  const text = Object.is(number, -0)
    ? '-0'
    : power < 0
      ? number.toFixed(Math.max(0, digits.replace(/\D/g, '').length - 1 - power))
      : String(number)
  return text.includes('.') ? text : `${text}.0`
}

export interface JsonForm {
  readonly ascii: boolean
  /** Text of one indentation step; null for output on one line. */
  readonly indent: string | null
  readonly separators: readonly [item: string, key: string]
  readonly sorted: boolean
}

/**
 * Python's `json.dumps`.
 * @throws Error for values that JSON does not have.
 */
export function jsonOf(value: Value, form: JsonForm, depth = 0): string {
  if (isString(value)) {
    const json = JSON.stringify(value.value)
    return (form.ascii ? asciiOf(json) : json).replace(PLACEHOLDER, MARKED.json)
  }
  if (isNone(value)) return 'null'
  if (isBoolean(value)) return String(value.value)
  if (isFloat(value)) return floatText(value.value as number)
  if (isInteger(value)) return String(value.value)
  const around = (open: string, items: readonly string[], close: string) => {
    if (form.indent === null || items.length === 0) return open + items.join(form.separators[0]) + close
    const line = `\n${form.indent.repeat(depth + 1)}`
    return `${open}${line}${items.join(form.separators[0] + line)}\n${form.indent.repeat(depth)}${close}`
  }
  if (isList(value))
    return around(
      '[',
      value.value.map((item) => jsonOf(item, form, depth + 1)),
      ']',
    )
  if (!isMap(value)) throw new Error(`${nameOf(value)} is not JSON serializable`)
  const entries = [...value.value]
  if (form.sorted) entries.sort(([left], [right]) => compare(toValue(left), toValue(right)))
  const members = entries.map(([key, inner]) => {
    const name = jsonOf(string(typeof key === 'string' ? key : jsonOf(toValue(key), form)), form)
    return `${name}${form.separators[1]}${jsonOf(inner, form, depth + 1)}`
  })
  return around('{', members, '}')
}

function asciiOf(json: string): string {
  return json.replace(
    /[\u007f-\udfff\ue002-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** The type's name, for messages. */
export function nameOf({ type }: Value): string {
  return type.replace(/Value$/, '').toLowerCase()
}
