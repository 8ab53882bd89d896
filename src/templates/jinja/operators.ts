import { contains, testNamed } from './tests.ts'
import {
  boolean,
  FloatValue,
  integer,
  isFloat,
  isList,
  isNumber,
  isString,
  list,
  nameOf,
  string,
  textOf,
  tuple,
  type Value,
} from './values.ts'

/** Operators that are tests as well. */
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

/** An operator of two values, as Python computes it. @throws Error for values that it does not take. */
export function calculate(operator: string, left: Value, right: Value): Value {
  if (COMPARISONS.has(operator)) return boolean(testNamed(operator)(left, right))
  if (operator === 'not in') return boolean(!contains(right, left))
  if (operator === '~') return string(textOf(left) + textOf(right))
  if (isNumber(left) && isNumber(right)) return numeric(operator, left, right)
  if (operator === '+' && isString(left) && isString(right)) return string(left.value + right.value)
  if (operator === '+' && isList(left) && isList(right) && left.type === right.type) {
    return left.type === 'TupleValue' ? tuple([...left.value, ...right.value]) : list([...left.value, ...right.value])
  }
  if (operator === '*' && isNumber(right)) {
    const times = Math.max(0, Number(right.value))
    if (isString(left)) return string(left.value.repeat(times))
    if (isList(left)) return list(Array.from({ length: times }, () => left.value).flat())
  }
  if (operator === '%' && isString(left))
    return string(percentFormat(left.value, isList(right) ? right.value : [right]))
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

/** `'%s: %d' % (a, b)`. */
function percentFormat(text: string, values: readonly Value[]): string {
  let next = 0
  return text.replace(/%[%sd]/g, (mark) => {
    if (mark === '%%') return '%'
    const value = values[next++]
    if (value === undefined) throw new Error('not enough arguments for format string')
    return textOf(value)
  })
}
