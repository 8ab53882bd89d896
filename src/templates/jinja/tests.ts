import {
  compare,
  equal,
  isBoolean,
  isFloat,
  isFunction,
  isInteger,
  isList,
  isMap,
  isNone,
  isNumber,
  isString,
  isUndefined,
  iterate,
  keyOf,
  textOf,
  type Value,
} from './values.ts'

export type Test = (value: Value, ...more: readonly Value[]) => boolean

const isSequence = (value: Value) => isString(value) || isList(value) || isMap(value) || isUndefined(value)
const isEqual: Test = (value, other) => equal(value, other!)
const isLess: Test = (value, other) => compare(value, other!) < 0
const isGreater: Test = (value, other) => compare(value, other!) > 0
const isAtMost: Test = (value, other) => compare(value, other!) <= 0
const isAtLeast: Test = (value, other) => compare(value, other!) >= 0
const remainder = (value: Value, by: number) => {
  if (!isNumber(value)) throw new Error('only numbers can be divided')
  return Number(value.value) % by
}

/** Python's `in`. */
export function contains(container: Value, value: Value): boolean {
  if (isString(container)) {
    if (!isString(value)) throw new Error("'in <string>' requires a string on the left")
    return container.value.includes(value.value)
  }
  if (isMap(container)) return container.value.has(keyOf(value))
  return iterate(container).some((item) => equal(item, value))
}

/** Jinja's tests, by name. */
const TESTS: ReadonlyMap<string, Test> = new Map<string, Test>([
  ['boolean', isBoolean],
  ['callable', isFunction],
  ['defined', (value) => !isUndefined(value)],
  ['undefined', isUndefined],
  ['none', isNone],
  ['true', (value) => isBoolean(value) && value.value === true],
  ['false', (value) => isBoolean(value) && value.value === false],
  ['string', isString],
  ['number', isNumber],
  ['integer', isInteger],
  ['float', isFloat],
  ['mapping', isMap],
  ['sequence', isSequence],
  ['iterable', isSequence],
  ['lower', (value) => /\p{Ll}/u.test(textOf(value)) && !/\p{Lu}/u.test(textOf(value))],
  ['upper', (value) => /\p{Lu}/u.test(textOf(value)) && !/\p{Ll}/u.test(textOf(value))],
  ['odd', (value) => remainder(value, 2) !== 0],
  ['even', (value) => remainder(value, 2) === 0],
  ['divisibleby', (value, by) => remainder(value, Number(by!.value)) === 0],
  ['in', (value, container) => contains(container!, value)],
  [
    'sameas',
    (value, other) => value === other || (value.constructor === other!.constructor && value.value === other!.value),
  ],
  ...['eq', 'equalto', '=='].map((name) => [name, isEqual] as const),
  ...['ne', '!='].map((name): readonly [string, Test] => [name, (value, other) => !equal(value, other!)]),
  ...['lt', 'lessthan', '<'].map((name) => [name, isLess] as const),
  ...['gt', 'greaterthan', '>'].map((name) => [name, isGreater] as const),
  ...['le', '<='].map((name) => [name, isAtMost] as const),
  ...['ge', '>='].map((name) => [name, isAtLeast] as const),
])

/** @throws Error for an unknown name. */
export function testNamed(name: string): Test {
  const test = TESTS.get(name)
  if (test === undefined) throw new Error(`No test named '${name}'`)
  return test
}
