import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { tableOf } from '../studio/src/structure/answer-table.ts'
import { faultOfSchema } from '../studio/src/structure/fault.ts'
import { JsonTextError, lineAndColumn, placeOf, readJson } from '../studio/src/structure/json-places.ts'

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function faultIn(text: string): JsonTextError | null {
  try {
    readJson(text)
    return null
  } catch (error) {
    if (error instanceof JsonTextError) return error
    throw error
  }
}

/** The path of each value, as the server's errors write it. */
function* pathsOf(value: unknown, path = ''): Generator<[string, unknown]> {
  yield [path, value]
  if (Array.isArray(value)) for (const [i, item] of value.entries()) yield* pathsOf(item, `${path}[${i}]`)
  else if (value !== null && typeof value === 'object') {
    for (const [key, member] of Object.entries(value)) yield* pathsOf(member, `${path}.${key}`)
  }
}

describe('the places of a JSON text', () => {
  const values = fc.jsonValue({ maxDepth: 4 })

  test('are those of its values, however it is indented', () => {
    fc.assert(
      fc.property(values, fc.constantFrom(0, 2, '\t'), (value, indent) => {
        const text = JSON.stringify(value, null, indent)
        const read = readJson(text)
        // Names with dots and brackets can make two paths the same; then the later value counts.
        for (const [path, inner] of new Map(pathsOf(JSON.parse(text)))) {
          const { start, end } = read.places.get(path)!
          expect(JSON.parse(text.slice(start, end))).toEqual(inner)
        }
      }),
    )
  })

  test('are given for exactly the texts that are JSON', () => {
    const pieces = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ':',
      ',',
      '"a"',
      '"\\u00e9"',
      '"\\x"',
      '"',
      '1',
      '-0.5e3',
      '01',
      '.5',
    )
    const others = fc.constantFrom('true', 'nul', 'null', ' ', '\n', "'a'", '-', '1.', 'é', '\t', '\u00a0')
    fc.assert(
      fc.property(fc.array(fc.oneof(pieces, others), { maxLength: 12 }), (parts) => {
        const text = parts.join('')
        expect(faultIn(text) === null, text).toBe(isJson(text))
      }),
      { numRuns: 2000 },
    )
    fc.assert(
      fc.property(values, fc.nat(), fc.string({ maxLength: 2 }), (value, at, change) => {
        const whole = JSON.stringify(value, null, 1)
        const place = at % (whole.length + 1)
        const text = whole.slice(0, place) + change + whole.slice(place + 1)
        expect(faultIn(text) === null, text).toBe(isJson(text))
        expect(faultIn(text)?.offset ?? 0).toBeLessThanOrEqual(text.length)
      }),
    )
  })

  test.each([
    ['{"a": 1,}', 7, "a ',' before '}' is not allowed"],
    ['{"a" 1}', 5, "expected ':' after the name"],
    ['{a: 1}', 1, "expected a name in double quotes, or '}'"],
    ['["a" "b"]', 5, "expected ',' or ']'"],
    ['{"a": "b}', 6, 'the string is not closed'],
    ['{"a": ', 6, 'the text ends where a value is expected'],
    ['{"a": yes}', 6, 'expected a value; text needs double quotes: "yes"'],
    ['{} {}', 3, 'there is text after the end of the value'],
  ])('%s', (text, offset, message) => {
    expect(faultIn(text)).toMatchObject({ offset, message })
  })

  test('a path that leads further than the text has the innermost value there', () => {
    const text = '{"properties": {"a.b": {"type": "strin"}}}'
    const read = readJson(text)
    const at = (path: string) => text.slice(placeOf(read, path).start, placeOf(read, path).end)
    expect(at('.properties.a.b.type')).toBe('"strin"')
    expect(at('.properties.a.b.type[0]')).toBe('"strin"')
    expect(at('.properties.a.bc')).toBe('{"a.b": {"type": "strin"}}')
    expect(at('.nothing')).toBe(text)
  })

  test('lines and columns count from 1', () => {
    expect(lineAndColumn('ab\ncd', 0)).toEqual({ line: 1, column: 1 })
    expect(lineAndColumn('ab\ncd', 4)).toEqual({ line: 2, column: 2 })
  })
})

test('a failure names a place in the schema only if its parameter is in the schema', () => {
  const text = '{"type": "strin"}'
  const message = 'The JSON schema is not supported: expected a type'
  const param = 'response_format.json_schema.schema'
  expect(faultOfSchema(text, { param: `${param}.type`, message })).toEqual({ message: 'expected a type', offset: 1 })
  expect(faultOfSchema(text, { param, message })).toEqual({ message: 'expected a type', offset: 0 })
  for (const other of [null, 'messages', 'response_format.json_schema', `${param}s.type`]) {
    expect(faultOfSchema(text, { param: other, message })).toBeNull()
  }
})

test('a list of objects is a table, also as the only one within an object', () => {
  const list = [{ a: 1 }, { b: 2, a: null }]
  expect(tableOf(list)).toEqual({ columns: ['a', 'b'], rows: list })
  expect(tableOf({ count: 2, list })).toEqual({ columns: ['a', 'b'], rows: list })
  for (const other of [[], [1], [{}, 1], { list, more: list }, 'text', null, undefined, { a: 1 }]) {
    expect(tableOf(other)).toBeNull()
  }
})
