import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { accepts, byteAutomaton, generator, randomText } from '../../../test/support/byte-automaton.ts'
import { promisedSchema, someForm } from '../../../test/support/promised-schema.ts'
import { randomPatterns, randomSchemas } from '../../../test/support/random-constraints.ts'
import { toRegExp } from '../../../test/support/reg-exp.ts'
import { schemaValidator } from '../../conversation/reply/structure/schema-validator.ts'
import { nameOf } from '../../lib/errors/param.ts'
import type { TagContent } from '../contract/constraint.ts'
import { grammarOf } from './constraint-grammar.ts'
import { parsePattern } from './regex/anchors.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'

const regex = (pattern: string): TagContent => ({ type: 'regex', pattern })
const json = (schema: unknown): TagContent => ({ type: 'json_schema', schema })

describe('regular expressions', () => {
  test.each<[pattern: string, matching: string[], other: string[]]>([
    ['abc', ['abc'], ['ab', 'abcd', '']],
    ['^a|b$', ['a', 'b'], ['ab']],
    ['(?:ab|c){2,3}', ['abc', 'cc', 'ababab'], ['c', 'cccc']],
    ['(a*)*b?', ['', 'aaab', 'b'], ['bb']],
    ['(?<year>\\d{4})-\\d\\d', ['2024-05'], ['2024-5', '٢٠٢٤-05']],
    ['[^a-y]', ['z', 'é', '😀', '\n'], ['a', 'zz']],
    ['[à-ÿ]+', ['éà'], ['e', 'Ā']],
    ['[^é]', ['è', 'e', 'ē'], ['é']],
    ['[一-龥]{2}', ['漢字'], ['漢', 'ab']],
    ['.+', ['a b', '漢\u00a0'], ['a\nb', 'a\u2028', '']],
    ['\\S\\s\\S', ['a b', 'a\u3000b'], ['abc', '  b', '\u00a0 b']],
    ['a\\-b\\/"\\\\', ['a-b/"\\'], ['a-b']],
    ['[\\]\\-^\\\\]{4}', [']-^\\'], ['a']],
    ['\\u{1F600}\\x41\\u0042', ['😀AB'], ['']],
    ['x{0}y', ['y'], ['xy']],
    ['a??b', ['b', 'ab'], ['aab']],
    ['a{1 2 3}b{1,x}', ['a{1 2 3}b{1,x}'], ['ab']],
    ['', [''], ['a']],
  ])('%s', (pattern, matching, other) => {
    const automaton = byteAutomaton(regex(pattern))
    const expression = toRegExp(parsePattern(pattern))
    for (const text of matching)
      expect([text, accepts(automaton, text), expression.test(text)]).toEqual([text, true, true])
    for (const text of other)
      expect([text, accepts(automaton, text), expression.test(text)]).toEqual([text, false, false])
  })

  test.each([
    ['a(?=b)', /lookaround '\(\?=' is not supported/],
    ['a(?<!b)', /lookaround/],
    ['(a)\\1', /'\\1' is not supported/],
    ['\\bfoo', /'\\b' is not supported/],
    ['\\p{Foo}', /'\\p\{Foo\}' is not known/],
    ['a^b', /'\^' is only supported at the ends/],
    ['(a$)b', /'\$' is only supported at the ends/],
    ['(a', /'\(' is not closed/],
    ['a)', /'\)' has no/],
    ['[a', /'\[' is not closed/],
    ['[]', /matches no character/],
    ['a\\P{Any}', /matches no character/],
    ['\\p{Cs}', /matches no character/],
    ['a|\ud800', /matches no character/],
    ['*a', /nothing to repeat/],
    ['a**', /nothing to repeat/],
    ['a{2,1}', /out of order/],
    ['[z-a]', /out of order/],
    ['a{99999}', /counts above 10000/],
    ['a{1 2}', /opens no count/],
    ['a{x', /opens no count/],
    ['((a{1000}){1000}){1000}', /multiply to/],
    ['('.repeat(100), /deeper than 50/],
    ['a\\', /at the end/],
    ['(?m:a)', /the flag 'm' of '\(\?m' is not supported/],
    ['(?>a)', /the atomic group/],
    ['a++', /possessive/],
    ['[[:alpha:]]', /'\[:alpha:\]' is not supported/],
    ['\\ud800', /names no character/],
  ])('%s is refused', (pattern, message) => {
    expect(() => grammarOf(regex(pattern))).toThrow(UnsupportedConstraint)
    expect(() => grammarOf(regex(pattern))).toThrow(message)
  })

  test('every text that a grammar lets through matches the pattern', () => {
    fc.assert(
      fc.property(randomPatterns, fc.nat(), (pattern, seed) => {
        const grammar = byteAutomaton(regex(pattern))
        const text = randomText(grammar, generator(seed))
        if (text !== null) expect(text).toMatch(toRegExp(parsePattern(pattern)))
      }),
      { numRuns: 100 },
    )
  })
})

describe('JSON schemas', () => {
  test.each<[schema: unknown, valid: string[], invalid: string[]]>([
    [
      { type: 'object', properties: { toString: { type: 'string' } } },
      ['{}', '{"toString": "a"}'],
      ['{"toString": 1}'],
    ],
    [{ enum: [{ toString: false }, { constructor: 1 }] }, ['{"toString": false}', '{"constructor": 1}'], ['{}']],
    [{ const: { valueOf: null } }, ['{"valueOf": null}'], ['{"valueOf": 0}']],
    [{ type: 'string' }, ['"a\\nb\\"é😀"', '""'], ['"a', '"a\nb"', '"\\ud800"', '"\\x"']],
    [{ type: 'string', minLength: 2, maxLength: 3 }, ['"😀é"', '"\\"\\\\a"'], ['"a"', '"abcd"']],
    [{ type: 'string', pattern: '^[^a]{2}$' }, ['"b\\""', '"\\\\\\n"'], ['"b"', '"ab"', '"""']],
    [{ type: 'string', pattern: '\\d+', minLength: 2 }, ['"12"', '"a1"', '"1 day"'], ['""', '"1"', '"ab"']],
    [
      { type: 'integer' },
      ['0', '-12', '1097253424567890123', '9223372036854775807', '-9223372036854775808'],
      ['01', '-0', '1.0', '1e3', '9223372036854775808', '-9223372036854775809', '9999999999999999999'],
    ],
    [
      { type: 'integer', format: 'int64', minimum: 1 },
      ['1', '1097253424567890123'],
      ['0', '-1', '9223372036854775808'],
    ],
    [{ type: 'integer', maximum: 5 }, ['5', '-9223372036854775808'], ['6', '-9223372036854775809']],
    [{ type: 'integer', maximum: 2 ** 63 }, ['9223372036854774784'], ['9223372036854775807', '9223372036854775808']],
    [{ type: 'integer', minimum: -(2 ** 63) }, ['-9223372036854774784'], ['-9223372036854775809']],
    [{ type: 'integer', maximum: 1e20 }, ['9999999999999999999'], ['10000000000000000000']],
    [{ type: 'number' }, ['9223372036854775807', '0.5'], ['9223372036854775808', '-9999999999999999999', '00']],
    [{ type: 'number', minimum: 0 }, ['9223372036854775807'], ['9223372036854775808', '9223372036854775808.5']],
    [{ type: 'integer', maximum: 2 ** 53 }, ['9007199254740990', '-1097253424567890123'], ['9007199254740993']],
    [{ type: 'integer', exclusiveMinimum: 2 ** 53 }, ['9007199254740994'], ['9007199254740992', '9007199254740993']],
    [{ type: 'number', minimum: 0.5 }, ['0.5', '1097253424567890123'], ['0.49', '-1097253424567890123']],
    [{ type: 'number', maximum: -1e15 }, ['-1000000000000000', '-1097253424567890123'], ['-999999999999999', '1']],
    [{ type: 'number', minimum: 4.9e-324, maximum: 1e-7 }, ['0.0000001', '0.00000000000000000001'], ['0', '0.0']],
    [{ type: 'number', minimum: -1e-7, maximum: -1e-25 }, ['-0.0000001', '-0.00000000000000000001'], ['0', '-0']],
    [{ type: 'number', minimum: 0, maximum: 1e-25 }, ['0', '0.0'], ['0.00000000000000000001']],
    [
      { type: 'number', exclusiveMinimum: 0.12345678901234568 },
      ['0.1234567890123457'],
      ['0.12345678901234568', '0.12345678901234568001'],
    ],
    [
      { type: 'number', minimum: 0.12345678901234568, exclusiveMaximum: 1 },
      ['0.12345678901234568', '0.99', '0.9999999999999999'],
      ['1', '0.99999999999999999999'],
    ],
    [
      { type: 'number', exclusiveMinimum: -1, maximum: -0.12345678901234568 },
      ['-0.9999999999999999'],
      ['-1', '-0.99999999999999999999'],
    ],
    [
      { type: 'number', exclusiveMinimum: 5, maximum: 5.000000000000001 },
      ['5.000000000000001'],
      ['5', '5.00000000000000000001'],
    ],
    [{ type: 'number', exclusiveMinimum: 0.25 }, ['0.2500001'], ['0.25', '0.2500000000000001']],
    [{ enum: [1000000000000000000, 1e20] }, ['1000000000000000000', '100000000000000000000'], ['1e20']],
    [{ const: { a: -(2 ** 53) } }, ['{"a": -9007199254740992}'], ['{"a": -9007199254740993}']],
    [
      {},
      ['1097253424567890123', '{"id": -1097253424567890123}'],
      ['9223372036854775808', '{"id": 9999999999999999999}'],
    ],
    [{ type: 'integer', minimum: -3, exclusiveMaximum: 120 }, ['-3', '0', '99', '119'], ['-4', '120', '007']],
    [{ type: 'number' }, ['0', '-1.5', '2e10', '1.25E-9'], ['1e999', '.5', '1.']],
    [{ type: 'number', minimum: 0, maximum: 1 }, ['0', '1', '0.5', '0.0', '1.00'], ['1.01', '-0.1', '2']],
    [
      { type: 'number', exclusiveMinimum: 0.25, maximum: 2.5 },
      ['0.251', '1', '2.49', '2.50'],
      ['0.25', '0.250', '2.51'],
    ],
    [{ type: 'number', minimum: -1.5, maximum: -0.5 }, ['-1.5', '-0.5', '-1'], ['-0.4', '-1.51', '0']],
    [{ type: ['integer', 'null'], minimum: 5 }, ['5', 'null'], ['4', '"a"']],
    [{ type: 'boolean' }, ['true', 'false'], ['null']],
    [{ const: { a: [1, null, 'x'] } }, ['{"a": [1, null, "x"]}'], ['{}']],
    [{ type: 'string', enum: ['a"b', 'é'] }, ['"a\\"b"', '"é"'], ['"a"']],
    [
      { type: 'array', items: { type: 'boolean' }, minItems: 1, maxItems: 2 },
      ['[true]', '[true, false]'],
      ['[]', '[true, true, true]'],
    ],
    [{ type: 'array', prefixItems: [{ type: 'null' }, { type: 'integer' }] }, ['[null, 1]'], ['[null]', '[1, null]']],
    [{ type: 'array', maxItems: 0 }, ['[]'], ['[1]']],
    [
      {
        type: 'object',
        properties: { a: { type: 'null' }, b: { type: 'null' }, c: { type: 'null' } },
        required: ['b'],
      },
      ['{"b": null}', '{"a": null, "b": null}', '{"b": null, "c": null}', '{"a": null, "b": null, "c": null}'],
      ['{}', '{"a": null}', '{"a": null, "c": null}', '{"b": null, "a": null}', '{"b": null, "d": null}'],
    ],
    [
      { type: 'object', properties: { a: { type: 'null' }, b: { type: 'null' } } },
      ['{}', '{"b": null}'],
      ['{, "b": null}'],
    ],
    [{ type: 'object', additionalProperties: { type: 'integer' } }, ['{}', '{"x": 1, "y": 2}'], ['{"x": "1"}']],
    [{ type: 'object', properties: {}, additionalProperties: false }, ['{}'], ['{"a": 1}']],
    [{ type: 'object' }, ['{}', '{"a": {"b": [1, "x"]}}'], ['[]']],
    [{ required: ['a'] }, ['{"a": [true]}'], ['{}']],
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, ['"a"', 'null'], ['1']],
    [true, ['1', 'null', '{"a": []}'], ['']],
    [
      { $ref: '#/$defs/tree', $defs: { tree: { type: 'array', items: { $ref: '#/$defs/tree' } } } },
      ['[]', '[[], [[]]]'],
      ['[1]', '['],
    ],
    [
      {
        oneOf: [
          { type: 'object', properties: { kind: { const: 'a' }, x: { type: 'null' } }, required: ['kind', 'x'] },
          { type: 'object', properties: { kind: { const: 'b' } }, required: ['kind'] },
        ],
      },
      ['{"kind": "a", "x": null}', '{"kind": "b"}'],
      ['{"kind": "a"}', '{"kind": "b", "x": null}'],
    ],
  ])('%j', (schema, valid, invalid) => {
    const automaton = byteAutomaton(json(schema))
    for (const text of valid) expect([text, accepts(automaton, text)]).toEqual([text, true])
    for (const text of invalid) expect([text, accepts(automaton, text)]).toEqual([text, false])
    for (const text of valid) expect(schemaValidator(schema as object)(JSON.parse(text))).toBe(true)
  })

  test.each<[schema: unknown, path: string, message: RegExp]>([
    [{ not: {} }, '.not', /'not' leaves nothing/],
    [{ type: 'array', uniqueItems: true }, '.uniqueItems', /'uniqueItems' is only/],
    [{ type: 'strong' }, '.type', /expected one or more of object/],
    [{ type: 'string', maxLength: 'x' }, '.maxLength', /expected an integer/],
    [{ type: 'string', minLength: 1e9 }, '.minLength', /more than the 10000/],
    [{ type: 'string', minLength: -1 }, '.minLength', /not negative/],
    [{ type: 'array', minItems: 1e6 }, '.minItems', /more than the 1000/],
    [{ type: 'object', minProperties: 100_000_000 }, '.minProperties', /'minProperties' cannot be kept/],
    [{ type: 'object', not: { maxProperties: 1e300 } }, '.not.maxProperties', /'minProperties' cannot be kept/],
    [{ type: 'string', pattern: '(a)\\1' }, '.pattern', /backreference/],
    [{ type: 'string', pattern: '\\P{Any}' }, '.pattern', /matches no character/],
    [{ type: 'string', pattern: 'a\ud800' }, '.pattern', /matches no character/],
    [{ type: 'number', multipleOf: JSON.parse('1e400') }, '.multipleOf', /too large/],
    [{ allOf: [{ multipleOf: 1e308 }, { multipleOf: 1e-9 }] }, '.allOf[0].multipleOf', /no number that is allowed/],
    [{ multipleOf: 1e-12 }, '.multipleOf', /no number that is allowed can be written/],
    [{ type: 'number', minimum: 1.5e300 }, '.minimum', /no number that is allowed/],
    [{ type: 'number', minimum: 1.1e-21, maximum: 1.2e-21 }, '.maximum', /no number that is allowed/],
    [{ type: 'integer', minimum: 1e19 }, '.minimum', /no integer that is allowed/],
    [{ type: 'integer', maximum: JSON.parse('1e400') }, '.maximum', /too large/],
    [{ type: 'array', maxItems: JSON.parse('1e400') }, '.maxItems', /not negative, got Infinity/],
    [{ type: 'string', pattern: '^b', format: 'date' }, '.pattern', /no string satisfies 'pattern' beside 'format'/],
    [
      { type: 'string', pattern: '^a{4}$', maxLength: 3 },
      '.maxLength',
      /no string satisfies 'maxLength' beside 'pattern'/,
    ],
    [{ type: 'object', properties: [] }, '.properties', /expected an object of schemas, got array/],
    [{ type: 'object', properties: { a: 1 } }, '.properties.a', /expected a schema, got number/],
    [{ type: 'object', required: 'a' }, '.required', /array of strings/],
    [{ type: 'object', required: ['a'], additionalProperties: false }, '.required', /allows no such property/],
    [{ enum: [] }, '.enum', /empty/],
    [{ type: 'integer', enum: ['1', 'a'] }, '.enum', /no value of 'enum' is allowed/],
    [
      { type: 'object', properties: { a: { const: 'x', maxLength: 0 } }, required: ['a'] },
      '.properties.a.const',
      /no value of 'const' is allowed/,
    ],
    // biome-ignore lint/correctness/noPrecisionLoss: a client's number.
    [{ enum: [5, 1097253424567890123] }, '.enum[1]', /integers beyond 2\^53/],
    [
      { properties: { a: { not: { const: [{ b: -(2 ** 53) - 2 }] } } } },
      '.properties.a.not.const',
      /integers beyond 2\^53/,
    ],
    // What 9223372036854775807 is read as.
    [{ const: 2 ** 63 }, '.const', /a double may not hold them/],
    [{ type: 'array', contains: {}, minContains: 1001 }, '.minContains', /1001 is more than the 1000/],
    [{ type: 'array', contains: {}, minContains: 3, maxContains: 2 }, '.maxContains', /less than 'minContains'/],
    [
      { allOf: [{ contains: { const: 1 }, maxContains: 2 }, { contains: { const: 2 } }] },
      '.allOf[0].maxContains',
      /only supported with a single 'contains'/,
    ],
    [{ type: 'array', minItems: 2, contains: {}, minContains: 5000 }, '.minContains', /5000 is more than/],
    [{ type: 'array', items: false, contains: {} }, '.items', /the schema false allows nothing|allows none/],
    [{ type: 'array', items: { type: 'null' }, contains: { const: 1 } }, '.items', /^'contains' asks for items/],
    [{ type: 'array', maxItems: 1, minItems: 2 }, '.minItems', /^'minItems' asks for items/],
    [{ type: 'object', required: ['a'], minProperties: 3, maxProperties: 5 }, '.minProperties', /cannot be kept/],
    [
      { type: 'object', properties: { a: false, b: {} }, required: ['b'], minProperties: 1, maxProperties: 0 },
      '.maxProperties',
      /cannot be kept/,
    ],
    [{ oneOf: [{ type: 'integer' }, { type: 'number' }] }, '.oneOf', /cannot be told apart/],
    [{ $ref: 'https://example.com/schema' }, '.$ref', /not a reference within/],
    [{ $ref: '#/$defs/a' }, '.$ref', /refers to nothing/],
    [{ $ref: '#' }, '.$ref', /refers to itself/],
    [{ anyOf: [{ $ref: '#' }, {}] }, '.anyOf[0].$ref', /refers to itself/],
    [{ type: 'integer', minimum: 2, maximum: 1 }, '.maximum', /no integer that is allowed/],
    [{ type: 'number', exclusiveMinimum: 1, exclusiveMaximum: 1 }, '.exclusiveMaximum', /no number that is allowed/],
    [false, '', /allows nothing/],
    ['string', '', /expected a schema, got string/],
    [undefined, '', /expected a schema, got undefined/],
    [{ $ref: '#/$defs/a', $defs: { a: { not: {} } } }, '.$defs.a.not', /'not'/],
  ])('%j is refused', (schema, path, message) => {
    const attempt = () => grammarOf(json(schema))
    expect(attempt).toThrow(message)
    expect(attempt).toThrow(
      expect.objectContaining({ path: expect.toSatisfy((at) => nameOf(['schema', ...at]) === `schema${path}`) }),
    )
  })

  test('size and nesting are bounded', () => {
    expect(() => grammarOf(json({ description: 'x'.repeat(300_000) }))).toThrow(/at most 200000/)
    let schema: unknown = {}
    for (let i = 0; i < 10_000; i++) schema = { type: 'array', items: schema }
    expect(() => grammarOf(json(schema))).toThrow()
    for (let i = 0, inner: unknown = {}; i < 100; i++) schema = inner = { type: 'array', items: inner }
    expect(() => grammarOf(json(schema))).toThrow(/nested deeper than 40/)
  })

  test('a schema without a finite value is followed, though to no end', () => {
    const node = { type: 'object', properties: { next: { $ref: '#' } }, required: ['next'] }
    expect(randomText(byteAutomaton(json(node)), generator(1), 200)).toBeNull()
  })

  test('every number that is let through keeps its bounds, of any size', () => {
    const near = fc.tuple(fc.integer({ min: -330, max: 25 }), fc.integer({ min: -99, max: 99 }))
    const any = fc.oneof(
      fc.double({ noNaN: true, noDefaultInfinity: true }),
      near.map(([exponent, digits]) => Number(`${digits}e${exponent}`)),
      fc.bigInt(-(2n ** 64n), 2n ** 64n).map(Number),
    )
    const keywords = fc.subarray(['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'], { minLength: 1 })
    const type = fc.constantFrom('number', 'integer')
    let finished = 0
    fc.assert(
      fc.property(
        type,
        keywords,
        fc.array(any, { minLength: 4, maxLength: 4 }),
        fc.nat(),
        (type, names, values, seed) => {
          const schema = { type, ...Object.fromEntries(names.map((name, at) => [name, values[at]])) }
          const grammar = grammarOrNull(schema)
          if (grammar === null) return
          for (let draw = 0; draw < 5; draw++) {
            const text = randomText(grammar, generator(seed + draw))!
            const valid = schemaValidator(schema)
            expect([text, valid(JSON.parse(text)), valid.errors]).toEqual([text, true, null])
            finished++
          }
        },
      ),
      { numRuns: 300 },
    )
    expect(finished).toBeGreaterThan(300)
  })

  test('no number is let through that a double rounds to a bound beside it, nor beyond', () => {
    const first = fc.oneof(
      fc.integer({ min: -999, max: 999 }).map((value) => value / 10),
      fc.integer({ min: -100_002, max: 100_002 }),
      fc.double({ min: -2, max: 2, noNaN: true }),
      fc.double({ min: -200_000, max: 200_000, noNaN: true }),
    )
    const distance = fc.oneof(
      fc.double({ min: 0, max: 2, noNaN: true }),
      fc.constantFrom(0.1, 0.0001, 1, 1e-7, 1e-12, 1e-15),
    )
    const next = fc.constantFrom(Math.ceil, Math.fround, (value: number) => Number(value.toPrecision(4)))
    const other = fc.oneof(
      distance.map((by) => (value: number) => value + by),
      next,
    )
    const [lower, upper] = [
      fc.constantFrom('minimum', 'exclusiveMinimum'),
      fc.constantFrom('maximum', 'exclusiveMaximum'),
    ]
    const unit = 10n ** 25n
    let checked = 0
    fc.assert(
      fc.property(first, other, lower, upper, (a, otherOf, lower, upper) => {
        const [min, max] = [a, otherOf(a)].sort((one, two) => one - two)
        const schema = { type: 'number', [lower]: min, [upper]: max }
        const grammar = grammarOrNull(schema)
        if (grammar === null) return
        const valid = schemaValidator(schema)
        for (const bound of [min!, max!]) {
          const [whole = '', fraction = ''] = bound.toFixed(20).replace('-', '').split('.')
          const units = BigInt(whole + fraction.padEnd(25, '0')) * (bound < 0 ? -1n : 1n)
          for (let places = 1; places <= 25; places++) {
            for (const by of [-(10n ** BigInt(25 - places)), 10n ** BigInt(25 - places)]) {
              const near = units + by
              const size = near < 0n ? -near : near
              const digits = `${size / unit}.${String(size % unit).padStart(25, '0')}`.replace(/\.?0+$/, '')
              const text = near < 0n ? `-${digits}` : digits
              if (!accepts(grammar, text)) continue
              checked++
              expect([text, valid(JSON.parse(text))]).toEqual([text, true])
            }
          }
        }
      }),
      { numRuns: 300 },
    )
    expect(checked).toBeGreaterThan(300)
  })

  function grammarOrNull(schema: object): ReturnType<typeof byteAutomaton> | null {
    try {
      return byteAutomaton(json(schema))
    } catch (error) {
      if (error instanceof UnsupportedConstraint) return null
      throw error
    }
  }

  test('labels with common beginnings and ends', () => {
    const labels = fc
      .array(fc.constantFrom('red ', 'green ', 'circle', 'square', 'un', 're', 'do', 's', 'er', 'é', 'è'), {
        minLength: 1,
        maxLength: 3,
      })
      .map((parts) => parts.join(''))
    const enums = fc.uniqueArray(labels, { minLength: 2, maxLength: 30 })
    fc.assert(
      fc.property(enums, fc.nat(), (values, seed) => {
        const choice = json({ type: 'array', items: { enum: values }, minItems: 5 })
        const text = randomText(byteAutomaton(choice), generator(seed))
        const others = (JSON.parse(text ?? '[]') as string[]).filter((value) => !values.includes(value))
        expect(others).toEqual([])
      }),
      { numRuns: 60 },
    )
  })

  test('every text that a grammar lets through is valid', () => {
    let finished = 0
    fc.assert(
      fc.property(randomSchemas, fc.nat(), (schema, seed) => {
        const grammar = byteAutomaton(json(schema))
        const text = randomText(grammar, generator(seed))
        if (text === null) return
        finished++
        const valid = schemaValidator(schema)
        expect([text, valid(JSON.parse(text)), valid.errors]).toEqual([text, true, null])
      }),
      { numRuns: 80 },
    )
    expect(finished).toBeGreaterThan(40)
  })

  /** The value with one change, small or large, somewhere in it. */
  function changed(value: unknown, draw: () => number): unknown {
    const pick = <Item>(options: readonly Item[]) => options[Math.floor(draw() * options.length)]!
    const inner = typeof value === 'object' && value !== null ? Object.entries(value) : []
    if (inner.length > 0 && draw() < 0.7) {
      const [key, old] = pick(inner)
      const change = (held: unknown, at: string) => (at === key ? changed(old, draw) : held)
      if (Array.isArray(value)) return value.map((held, at) => change(held, String(at)))
      return Object.fromEntries(inner.map(([name, held]) => [name, change(held, name)]))
    }
    const other = pick<unknown>([null, true, 5, -0.5, '', 'x', [], {}])
    if (draw() < 0.3) return other
    if (Array.isArray(value)) return pick<unknown>([[...value, value.at(-1) ?? other], value.slice(1), [other]])
    if (inner.length > 0) {
      const [name] = pick(inner)
      return pick<unknown>([
        Object.fromEntries(inner.filter(([key]) => key !== name)),
        Object.fromEntries([...inner, ['other', other]]),
      ])
    }
    if (typeof value === 'number') return pick([value + 1, value - 1, -value, value / 2, Math.round(value)])
    if (typeof value !== 'string') return other
    const characters = [...value]
    return pick([`${value}a`, characters.slice(1).join(''), characters.slice(0, -1).join('')])
  }

  test('a value is let through when, and only when, it is one that is promised', () => {
    const seen = { through: 0, kept: 0 }
    fc.assert(
      fc.property(randomSchemas, fc.nat(), (schema, seed) => {
        const grammar = byteAutomaton(json(schema))
        const draw = generator(seed)
        const text = randomText(grammar, draw)
        if (text === null) return
        const valid = schemaValidator(promisedSchema(schema) as object)
        for (let tries = 0; tries < 10; tries++) {
          const value = changed(JSON.parse(text), draw)
          // Numbers have a limited number of digits, and exponents only where they have no bounds.
          if (/\de[+-]?\d|\.\d{6}|\d{15}/.test(JSON.stringify(value))) continue
          const expected = valid(value)
          seen[expected ? 'through' : 'kept']++
          expect([value, someForm(value, (form) => accepts(grammar, form))]).toEqual([value, expected])
        }
      }),
      { numRuns: 80 },
    )
    expect(seen.through).toBeGreaterThan(50)
    expect(seen.kept).toBeGreaterThan(50)
  })
})

describe('a lenient schema', () => {
  const lenient = (schema: unknown): TagContent => ({ type: 'json_schema', schema, lenient: true })

  test('leaves out what cannot be kept, and keeps the rest', () => {
    const schema = {
      type: 'object',
      properties: {
        a: { type: 'string', format: 'credit-card', not: { const: 'x' } },
        b: { type: 'array', items: [{ type: 'integer' }], contains: true },
        ['__proto__']: { type: 'integer' },
      },
      required: ['a', '__proto__', 'b'],
      additionalProperties: false,
      minProperties: 1,
    }
    const grammar = byteAutomaton(lenient(schema))
    expect(accepts(grammar, '{"a": "y", "b": [1]}')).toBe(true)
    expect(accepts(grammar, '{"a": 1, "b": [1]}')).toBe(false)
    expect(accepts(grammar, '{"a": "x", "b": ["y"]}')).toBe(false)
    expect(() => grammarOf({ type: 'json_schema', schema })).toThrow(UnsupportedConstraint)
  })

  const object = (properties: object, more: object = {}) => ({
    type: 'object',
    properties,
    required: Object.keys(properties),
    ...more,
  })
  const text = { type: 'string' }
  const count = { type: 'integer' }
  test.each<[name: string, schema: object, allowed: string[], other: string[]]>([
    [
      'constants of another type stand alone',
      { type: 'boolean', enum: ['True', 'False'] },
      ['"True"'],
      ['true', '"a"'],
    ],
    [
      'constants that a double does not hold are left out',
      { type: 'integer', enum: [5, 2 ** 60] },
      ['1097253424567890123', '5'],
      ['"a"'],
    ],
    [
      'constants that a double holds',
      { enum: [2 ** 53, 2e18, 1e21] },
      ['9007199254740992', '2000000000000000000', '1e+21'],
      ['5'],
    ],
    ['constants of its type are kept', { type: 'string', enum: ['a', 1, null] }, ['"a"'], ['1', 'null', '"b"']],
    ['a constant of another type', { type: 'string', const: 5 }, ['5'], ['"5"']],
    ['a constant among others', { const: 'a', enum: ['b', 'a'] }, ['"a"'], ['"b"']],
    ['a constant that is not among others', { const: 'a', enum: ['b', 'c'] }, ['"a"'], ['"b"']],
    [
      'members and items that no value is valid for',
      {
        type: 'object',
        properties: {
          a: { type: 'integer', enum: ['1', '2'] },
          b: { type: 'array', items: { type: 'integer', enum: ['1'] } },
          c: { type: 'object', properties: { d: { type: 'boolean', const: 'x' } }, required: ['d'] },
          f: { type: 'object', required: ['Z'], propertyNames: { pattern: '^[a-z]$' } },
          e: { anyOf: [{ type: 'integer', enum: ['1'] }, { type: 'null' }] },
        },
      },
      ['{}', '{"b": []}', '{"b": [], "e": null}'],
      ['{"a": "1"}', '{"f": {}}', '{"b": ["1"]}', '{"c": {"d": "x"}}', '{"e": "1"}'],
    ],
    [
      'a required member that no value is valid for',
      object({
        a: { type: 'integer', enum: ['1', '2'] },
        b: { type: 'array', items: { type: 'null', const: 1 }, minItems: 1 },
      }),
      ['{"a": "1", "b": [1]}'],
      ['{}', '{"a": 1, "b": []}'],
    ],
    ['numbers as text', { type: 'integer', enum: ['1', '2'] }, ['"1"'], ['1']],
    [
      'objects together',
      { allOf: [object({ a: text }), object({ b: count })] },
      ['{"a": "x", "b": 1}'],
      ['"x"', '{"a": "x"}'],
    ],
    [
      'objects beside each other',
      object({ a: text }, { allOf: [object({ b: count })] }),
      ['{"a": "x", "b": 1}'],
      ['{"a": "x"}'],
    ],
    ['a reference beside others', { $ref: '#/$defs/o', required: ['a'] }, ['{"a": "x"}'], ['{}', '"x"']],
    [
      'a reference together with others',
      { allOf: [{ $ref: '#/$defs/o' }], default: {} },
      ['{}', '{"a": "x"}'],
      ['"x"', '{"a": 1}'],
    ],
    [
      'a type beside alternatives',
      { type: 'string', anyOf: [{ minLength: 2 }, { type: 'null' }] },
      ['"ab"'],
      ['null', '"a"'],
    ],
    [
      'alternatives in an array',
      { type: 'array', items: { oneOf: [{ allOf: [text] }, { type: 'null' }] } },
      ['["a", null]'],
      ['[1]'],
    ],
    [
      'what is required of one of them',
      object({ a: text }, { anyOf: [{ required: ['b'] }, { required: ['c'] }] }),
      ['{"a": "x", "b": 1}'],
      ['{"a": "x"}'],
    ],
    ['lengths of several', { allOf: [{ type: 'string', minLength: 1 }, { maxLength: 2 }] }, ['"ab"'], ['""', '"abc"']],
    [
      'an alternative that allows nothing',
      { anyOf: [{ type: 'integer', minimum: 2, maximum: 1 }, text] },
      ['"a"'],
      ['1', 'null'],
    ],
    ['a reference to itself', { $ref: '#/$defs/tree', minProperties: 1 }, ['{"n": {"n": {}}}'], ['{"n": 1}']],
    [
      'a reference to itself beside others',
      { allOf: [{ $ref: '#/$defs/tree' }, { required: ['n'] }] },
      ['{"n": {}}'],
      ['{}', '{"n": 1}'],
    ],
    ['bounds that allow nothing', { type: 'integer', minimum: 2, maximum: 1 }, ['5'], ['"a"', 'null']],
    ['multiples of a whole number', { type: 'number', multipleOf: 1, minimum: 0 }, ['5'], ['5.5']],
    ['an exclusive bound of older drafts', { type: 'integer', minimum: 5, exclusiveMinimum: true }, ['6'], ['5']],
    ['nothing that satisfies both', { allOf: [{ type: 'string' }, { type: 'integer' }] }, ['"a"', '1'], []],
  ])('means what it says of a value: %s', (_, schema, allowed, others) => {
    const tree = { type: 'object', properties: { n: { $ref: '#/$defs/tree' } } }
    const root = { ...object({ v: schema }), $defs: { o: { type: 'object', properties: { a: text } }, tree } }
    const grammar = byteAutomaton(lenient(root))
    for (const value of allowed) expect([value, accepts(grammar, `{"v": ${value}}`)]).toEqual([value, true])
    for (const value of others) expect([value, accepts(grammar, `{"v": ${value}}`)]).toEqual([value, false])
  })

  test.each([
    ['no schema', 5],
    ['nothing', false],
    ['more members than there may be', { ...object({ a: text, b: text }), maxProperties: 1 }],
    ['types that exclude each other', { allOf: [{ type: 'object' }, { type: 'string' }] }],
    [
      'too many schemas',
      {
        type: 'object',
        properties: Object.fromEntries(
          Array.from({ length: 3000 }, (_, i) => [`p${i}`, { type: 'string', maxLength: i }]),
        ),
      },
    ],
  ])('of which nothing can be kept stands for any object: %s', (_, schema) => {
    const grammar = byteAutomaton(lenient(schema))
    expect(accepts(grammar, '{"a": {"b": [1, null]}}')).toBe(true)
    expect(accepts(grammar, '5')).toBe(false)
  })
})
