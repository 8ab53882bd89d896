import { contains, testNamed } from './tests.ts'
import {
  boolean,
  FloatValue,
  integer,
  isFloat,
  isList,
  isMap,
  isNumber,
  isString,
  isUndefined,
  list,
  nameOf,
  string,
  textOf,
  tuple,
  type Value,
} from './values.ts'

/** Operators that are also tests. */
const COMPARISONS: ReadonlySet<string> = new Set(['==', '!=', '<', '>', '<=', '>=', 'in'])

const ARITHMETIC: ReadonlyMap<string, (a: number, b: number) => number> = new Map([
  ['+', (a, b) => a + b],
  ['-', (a, b) => a - b],
  ['*', (a, b) => a * b],
  ['/', (a, b) => a / b],
  ['//', (a, b) => Math.floor(a / b)],
  ['%', (a, b) => a - b * Math.floor(a / b)],
  ['**', (a, b) => a ** b],
])

/**
 * A binary operator, as Python computes it.
 * @throws Error for unsupported values.
 */
export function calculate(operator: string, left: Value, right: Value): Value {
  if (COMPARISONS.has(operator)) return boolean(testNamed(operator)(left, right))
  if (operator === 'not in') return boolean(!contains(right, left))
  if (operator === '~') return string(textOf(left) + textOf(right))
  if (isNumber(left) && isNumber(right)) return numeric(operator, left, right)
  if (operator === '+' && isString(left) && isString(right)) return string(left.value + right.value)
  if (operator === '+' && isList(left) && isList(right) && left.type === right.type) {
    return left.type === 'TupleValue' ? tuple([...left.value, ...right.value]) : list([...left.value, ...right.value])
  }
  if (operator === '*' && isNumber(left)) return calculate(operator, right, left)
  if (operator === '*' && isNumber(right)) {
    const times = Math.max(0, Number(right.value))
    if (isString(left)) return string(left.value.repeat(times))
    if (isList(left)) return list(Array.from({ length: times }, () => left.value).flat())
  }
  if (operator === '%' && isString(left)) {
    if (right.type === 'TupleValue') return string(percentFormat(left.value, right.value as Value[]))
    // Python treats values with keys or indices as mappings, which may remain unused.
    return string(percentFormat(left.value, [right], isMap(right) || isList(right) || isUndefined(right)))
  }
  throw new Error(`unsupported operands for ${operator}: ${nameOf(left)} and ${nameOf(right)}`)
}

function numeric(operator: string, left: Value<number | boolean>, right: Value<number | boolean>): Value {
  const a = Number(left.value)
  const b = Number(right.value)
  if (b === 0 && ['/', '//', '%'].includes(operator)) throw new Error('division by zero')
  const compute = ARITHMETIC.get(operator)
  if (compute === undefined) throw new Error(`unknown operator ${operator}`)
  const yieldsFloat = isFloat(left) || isFloat(right) || operator === '/' || (operator === '**' && b < 0)
  const result = compute(a, b)
  return yieldsFloat ? new FloatValue(result) : integer(result)
}

/**
 * `'%s: %02d' % (a, b)`.
 * @throws Error for unsupported formats: otherwise prompts would be silently wrong.
 */
export function percentFormat(text: string, values: readonly Value[], mayBeUnused = false): string {
  let next = 0
  const result = text.replace(/%(?:(-?)(0?)(\d{0,3})([sd%])|)/g, (mark, left, zero, width, kind) => {
    if (mark === '%%') return '%'
    if (kind === undefined || kind === '%') throw new Error(`unsupported format in '${text}'`)
    const value = values[next++]
    if (value === undefined) throw new Error('not enough arguments for format string')
    if (kind === 'd' && !isNumber(value)) throw new Error(`%d needs a number, not ${nameOf(value)}`)
    const shown = kind === 'd' ? exact(Math.trunc(Number(value.value))) : value
    const isZero = zero !== '' && kind === 'd'
    return left === '' && isZero
      ? padded(textOf(shown), { align: '=', fill: '0', width: Number(width) })
      : padded(textOf(shown), { align: left === '' ? '>' : '<', fill: ' ', width: Number(width) })
  })
  if (next < values.length && !mayBeUnused) throw new Error('not all arguments converted during string formatting')
  return result
}

/**
 * Formats a value like `{:02d}`.
 * @throws Error for another format.
 */
export function formatValue(value: Value, form: string): string {
  const [, align, zero, width, kind] = /^([<>^]?)(0?)(\d{0,3})([sd]?)$/.exec(form) ?? []
  const isWhole = isNumber(value) && !isFloat(value)
  if (width === undefined || (kind === 'd' && !isWhole) || (kind === 's' && !isString(value)))
    throw new Error(`unsupported format '${form}' of ${nameOf(value)}`)
  if (form !== '' && !isString(value) && !isNumber(value)) throw new Error(`unsupported format of ${nameOf(value)}`)
  const isInteger = isWhole && form !== ''
  const text = textOf(isInteger ? exact(Number(value.value)) : value)
  const usual = !isNumber(value) ? '<' : zero === '' ? '>' : '='
  return padded(text, { align: align || usual, fill: zero || ' ', width: Number(width) })
}

/** @throws Error for a number so large that JavaScript has rounded it. */
function exact(number: number): Value {
  if (!Number.isSafeInteger(number)) throw new Error(`${number} cannot be formatted: it is too large`)
  return integer(number)
}

interface Padding {
  /** As in Python's formats: `=` pads between the sign and the digits. */
  readonly align: string
  readonly fill: string
  readonly width: number
}

export function padded(text: string, { align, fill, width }: Padding): string {
  const missing = Math.max(0, width - [...text].length)
  const left = align === '<' ? 0 : align === '^' ? Math.floor(missing / 2) : missing
  const sign = align === '=' ? /^[+-]?/.exec(text)![0] : ''
  return sign + fill.repeat(left) + text.slice(sign.length) + fill.repeat(missing - left)
}
