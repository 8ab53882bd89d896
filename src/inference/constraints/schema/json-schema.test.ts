import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { accepts, byteAutomaton, generator, randomText } from '../../../../test/support/byte-automaton.ts'
import { modernSchema } from '../../../conversation/reply/structure/modern-schema.ts'
import { schemaValidator } from '../../../conversation/reply/structure/schema-validator.ts'
import { UnsupportedConstraint } from '../unsupported-constraint.ts'

const text = { type: 'string' }
const count = { type: 'integer' }
const nothing = { type: 'null' }

describe('keywords together', () => {
  test.each<[schema: unknown, allowed: string[], others: string[]]>([
    [{ type: 'string', unknown: 1, 'x-more': 2, discriminator: {} }, ['"a"'], ['1']],
    [{ type: 'integer', minLength: 3, items: false }, ['1'], ['"abc"']],
    [{ type: 'string', anyOf: [{ const: 'a' }, { const: 1 }] }, ['"a"'], ['1']],
    [{ type: ['string', 'null'], enum: ['a', null, 3] }, ['"a"', 'null'], ['3']],
    [{ type: 'string', nullable: true }, ['"a"', 'null'], ['1']],
    [{ $schema: 'http://json-schema.org/draft-07/schema#', type: 'string', nullable: true }, ['"a"'], ['null']],
    [{ allOf: [{ minimum: 3 }, { type: 'integer', maximum: 4 }] }, ['3', '4'], ['2', '5']],
    [
      { allOf: [{ properties: { a: text } }, { properties: { b: count }, additionalProperties: false }] },
      ['{}', '{"b": 1}'],
      ['{"a": "x"}'],
    ],
    [{ $ref: '#/$defs/a', minimum: 2, $defs: { a: count } }, ['2'], ['1']],
    [{ definitions: { a: { id: '#x', type: 'integer' } }, $ref: '#x' }, ['1'], ['"a"']],
    [
      { $defs: { a: { $id: 'https://example.com/a', type: 'integer' } }, $ref: 'https://example.com/a' },
      ['1'],
      ['"a"'],
    ],
    [{ $defs: { a: { $anchor: 'x', type: 'integer' } }, $ref: '#x' }, ['1'], ['"a"']],
    [{ oneOf: [{ type: 'integer' }, { type: 'number', minimum: 5 }] }, ['4'], ['5']],
    [
      {
        type: 'object',
        properties: { a: nothing, b: nothing },
        oneOf: [{ required: ['a'] }, { required: ['b'] }],
      },
      ['{"a": null}', '{"b": null}'],
      ['{}', '{"a": null, "b": null}'],
    ],
    [{ oneOf: [{ type: 'integer', not: { multipleOf: 2 } }, { type: 'integer' }] }, ['2'], ['1']],
    [{ oneOf: [{ oneOf: [{ multipleOf: 2 }, count] }, { if: count, else: {} }] }, ['2'], ['1']],
    [
      {
        oneOf: [
          { type: 'array', items: { not: { multipleOf: 2 } }, minItems: 1 },
          { type: 'array', items: count },
        ],
      },
      ['[]'],
      ['[1]'],
    ],
    [{ oneOf: [{ required: ['a'] }, { additionalProperties: false, pattern: '^a' }] }, ['"b"'], ['"ab"']],
    [{ enum: ['a', 'b', 'c'], not: { const: 'b' } }, ['"a"', '"c"'], ['"b"']],
    [{ type: 'string', not: { pattern: '^a' } }, ['"ba"', '""'], ['"ab"']],
    [{ type: 'integer', not: { minimum: 5 } }, ['4'], ['5']],
    [
      {
        type: 'object',
        properties: { kind: { enum: ['a', 'b'] }, size: count },
        required: ['kind'],
        if: { properties: { kind: { const: 'a' } } },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
        then: { required: ['size'] },
      },
      ['{"kind": "a", "size": 1}', '{"kind": "b"}'],
      ['{"kind": "a"}'],
    ],
    [
      { type: 'object', properties: { a: nothing, b: nothing }, dependentRequired: { a: ['b'] } },
      ['{}', '{"b": null}', '{"a": null, "b": null}'],
      ['{"a": null}'],
    ],
    [{ type: 'object', patternProperties: { '^a': count }, additionalProperties: false }, ['{"ab": 1}'], ['{"b": 1}']],
    [
      { type: 'object', properties: { a: text }, additionalProperties: count },
      ['{"a": "x", "b": 1}', '{"b": 1}'],
      ['{"b": "x"}', '{"a": 1}', '{"b": 1, "a": 1}'],
    ],
    [{ type: 'object', properties: { ab: {} }, patternProperties: { b$: count } }, ['{"ab": 1}'], ['{"ab": "x"}']],
    [{ type: 'object', propertyNames: { enum: ['a', 'b'] } }, ['{"a": 1}', '{"a": 1, "b": 2}'], ['{"c": 1}']],
    [{ type: 'object', propertyNames: { pattern: '^[ab]+$' } }, ['{"ab": 1}'], ['{"c": 1}']],
    [
      { type: 'object', properties: { a: nothing, b: nothing, c: nothing }, minProperties: 1, maxProperties: 2 },
      ['{"b": null}', '{"a": null, "c": null}'],
      ['{}', '{"a": null, "b": null, "c": null}'],
    ],
    [{ type: 'object', minProperties: 1, maxProperties: 2_147_483_647 }, ['{"a": 1}', '{"a": 1, "b": 2}'], ['{}']],
    [{ type: 'object', additionalProperties: text, maxProperties: 20_000 }, ['{}', '{"a": "x"}'], ['{"a": 1}']],
    [{ type: 'object', properties: { a: nothing }, maxProperties: 1e300 }, ['{}', '{"a": null}'], ['{"b": null}']],
    [
      { type: 'object', properties: { a: nothing }, additionalProperties: count, minProperties: 1, maxProperties: 1e9 },
      ['{"a": null}', '{"b": 1}', '{"a": null, "b": 1, "c": 2}'],
      ['{}'],
    ],
    [
      { type: 'object', properties: { a: nothing }, additionalProperties: count, maxProperties: 2 },
      ['{"b": 1, "c": 2}', '{"a": null, "b": 1}'],
      ['{"a": null, "b": 1, "c": 2}'],
    ],
    [
      { allOf: [{ properties: { a: text } }], properties: { b: text }, unevaluatedProperties: false, required: ['a'] },
      ['{"b": "x", "a": "y"}'],
      ['{"c": 1}'],
    ],
    [{ type: 'integer', multipleOf: 7, minimum: 0, maximum: 100_000 }, ['0', '7', '99995'], ['8', '100002', '-7']],
    [{ type: 'number', multipleOf: 0.5 }, ['1', '1.5', '-0.5'], ['0.25']],
    [{ type: 'number', multipleOf: 0.01, minimum: 0, maximum: 2 }, ['0.5', '1.25', '2'], ['0.005', '2.01']],
    [{ type: 'integer', minimum: 5, exclusiveMinimum: true }, ['6'], ['5']],
    [
      { type: 'array', items: [text, count], additionalItems: nothing, minItems: 1 },
      ['["a"]', '["a", 1, null]'],
      ['[]'],
    ],
    [{ type: 'array', items: count, contains: { minimum: 5 } }, ['[5]', '[7, 1]'], ['[]', '[1]']],
    [
      { type: 'array', items: { enum: ['a', 'b', 'c'] }, uniqueItems: true, minItems: 1 },
      ['["a"]', '["a", "c"]'],
      ['[]', '["a", "a"]'],
    ],
  ])('%j', (schema, allowed, others) => {
    const grammar = byteAutomaton({ type: 'json_schema', schema })
    const valid = schemaValidator(modernSchema(schema) as object)
    for (const value of allowed)
      expect([value, accepts(grammar, value), valid(JSON.parse(value))]).toEqual([value, true, true])
    for (const value of others) expect([value, accepts(grammar, value)]).toEqual([value, false])
  })

  test('thirty dependencies leave what can be written together', () => {
    const names = Array.from({ length: 30 }, (_, at) => [`a${at}`, `b${at}`] as const)
    const schema = {
      type: 'object',
      properties: Object.fromEntries(
        names.flatMap(([a, b]) => [
          [a, nothing],
          [b, nothing],
        ]),
      ),
      dependentRequired: Object.fromEntries(names.map(([a, b]) => [a, [b]])),
    }
    const grammar = byteAutomaton({ type: 'json_schema', schema })
    expect(accepts(grammar, `{${names.map(([, b]) => `"${b}": null`).join(', ')}}`)).toBe(true)
    expect(accepts(grammar, '{"a0": null}')).toBe(false)
  })

  test('alternatives that refer to the same at many levels are one', () => {
    const level = (at: number) => ({ anyOf: Array.from({ length: 40 }, () => ({ $ref: `#/$defs/l${at + 1}` })) })
    const levels = Array.from({ length: 9 }, (_, at) => [`l${at}`, level(at)] as const)
    const schema = { ...level(-1), $defs: Object.fromEntries([...levels, ['l9', count]]) }
    expect(accepts(byteAutomaton({ type: 'json_schema', schema }), '5')).toBe(true)
    expect(schemaValidator(modernSchema(schema) as object)('x')).toBe(false)
  })
})

test('names the keyword beside which no string is left', () => {
  const schema = { type: 'object', properties: { a: { pattern: '^a$', not: { const: 'a' } } }, required: ['a'] }
  const named = expect.objectContaining({ path: ['properties', 'a', 'pattern'] })
  expect(() => byteAutomaton({ type: 'json_schema', schema })).toThrow(named)
})

/** Two schemas of a member, of which one must hold and not both. */
function eitherMember(one: object, other: object): object {
  const object = (value: object) => ({ type: 'object', properties: { a: value }, required: ['a'] })
  return { oneOf: [object(one), object(other)] }
}

// What is left out of `not`, of products or of a pattern is no proof that two schemas have nothing in common.
test.each<[schema: object, invalid: string]>([
  [eitherMember({ type: 'number', minimum: 0.5, maximum: 0.75 }, { not: count }), '{"a": 0.6}'],
  [eitherMember({ const: 5 }, { type: 'integer', not: { multipleOf: 2 } }), '{"a": 5}'],
  [eitherMember({ type: 'array', minItems: 1 }, { type: 'array', not: { uniqueItems: true } }), '{"a": [1, 1]}'],
  [eitherMember({ type: 'string', minLength: 9 }, { type: 'string', not: { format: 'date' } }), '{"a": "aaaaaaaaa"}'],
  [eitherMember({ required: ['b'] }, { type: 'object', not: { additionalProperties: false } }), '{"a": {"b": 1}}'],
  [eitherMember({ required: ['b'] }, { type: 'object', not: { patternProperties: { b: false } } }), '{"a": {"b": 1}}'],
  [{ oneOf: [{ type: 'number', minimum: 0.5, maximum: 0.75 }, { not: count }] }, '0.6'],
  [{ oneOf: [{ enum: ['a', 'b'] }, { enum: ['a'], pattern: '()\\1a' }] }, '"a"'],
  [
    {
      oneOf: [
        { properties: { a: count, b: count }, required: ['a', 'b'] },
        {
          ...{ type: 'object', required: ['a'], unevaluatedProperties: false },
          anyOf: [{ properties: { a: {} } }, { properties: { b: {} } }],
        },
      ],
    },
    '{"a": 1, "b": 1}',
  ],
  [
    {
      oneOf: [
        { properties: Object.fromEntries([...'abcdefgh'].map((name, at) => [name, { const: at % 2 }])) },
        { allOf: Array.from('abcdefgh', (name) => ({ anyOf: [0, 1].map((value) => member(name, { const: value })) })) },
      ],
    },
    `{${Array.from('abcdefgh', (name, at) => `"${name}": ${at % 2}`).join(', ')}}`,
  ],
  [
    {
      ...{ $schema: 'http://json-schema.org/draft-07/schema#', definitions: { number: { type: 'number' } } },
      oneOf: [
        { type: 'integer', maximum: 3 },
        { $ref: '#/definitions/number', minimum: 5 },
      ],
    },
    '2',
  ],
  [{ enum: [[0.5, 0.6]], contains: { not: count }, minContains: 0, maxContains: 1 }, '[0.5, 0.6]'],
  [{ enum: [{ ab: 1 }], patternProperties: { '(x)\\1': {} }, additionalProperties: false }, '{"ab": 1}'],
  [
    {
      type: 'array',
      items: {
        enum: [
          { a: 1, b: 2 },
          { b: 2, a: 1 },
        ],
      },
      uniqueItems: true,
    },
    '[{"a": 1, "b": 2}, {"b": 2, "a": 1}]',
  ],
  [{ type: 'array', dependentSchemas: { a: { items: {} } }, unevaluatedItems: false }, '[1]'],
  [{ enum: [1, 1e20], multipleOf: 0.1 }, '100000000000000000000'],
  [{ not: { $ref: '#/$defs/a' }, $defs: { a: { anyOf: [text, { $ref: '#/$defs/a' }] } } }, '1'],
])('%j does not let through %s', (schema, invalid) => {
  const grammar = grammarOrNull(schema)
  expect(grammar !== null && accepts(grammar, invalid)).toBe(false)
})

function member(name: string, value: object): object {
  return { type: 'object', properties: { [name]: value }, required: [name] }
}

function grammarOrNull(schema: object): ReturnType<typeof byteAutomaton> | null {
  try {
    return byteAutomaton({ type: 'json_schema', schema })
  } catch (error) {
    if (error instanceof UnsupportedConstraint) return null
    throw error
  }
}

const names = fc.constantFrom('a', 'b', 'cd')
const scalars = fc.constantFrom<unknown>('a', 'bb', 1, 2, 2.5, true, null)
const keywords = fc.letrec<{ schema: object }>((tie) => {
  const some = fc.array(tie('schema'), { minLength: 1, maxLength: 3 })
  const keyword = (name: string, value: fc.Arbitrary<unknown>) => value.map((one) => ({ [name]: one }))
  return {
    schema: fc
      .array(
        fc.oneof(
          { maxDepth: 3, withCrossShrink: true },
          keyword('type', fc.subarray(['object', 'array', 'string', 'integer', 'number', 'null'], { minLength: 1 })),
          keyword('enum', fc.array(scalars, { minLength: 1, maxLength: 4 })),
          keyword('minimum', fc.integer({ min: -3, max: 3 })),
          keyword('maximum', fc.integer({ min: 0, max: 9 })),
          keyword('multipleOf', fc.constantFrom(2, 3, 0.5)),
          keyword('maxLength', fc.integer({ min: 0, max: 4 })),
          keyword('pattern', fc.constantFrom('^a', 'b$', '^[ab]*$')),
          keyword('required', fc.uniqueArray(names, { maxLength: 2 })),
          keyword('minProperties', fc.nat(2)),
          keyword('maxProperties', fc.nat(3)),
          keyword('minItems', fc.nat(2)),
          keyword('maxItems', fc.nat(3)),
          keyword('dependentRequired', fc.dictionary(names, fc.uniqueArray(names, { maxLength: 2 }), { maxKeys: 2 })),
          keyword('properties', fc.dictionary(names, tie('schema'), { maxKeys: 3 })),
          keyword('patternProperties', fc.dictionary(fc.constantFrom('^a', 'd$'), tie('schema'), { maxKeys: 2 })),
          keyword('additionalProperties', fc.oneof(fc.constant(false), tie('schema'))),
          keyword('unevaluatedProperties', fc.constant(false)),
          keyword('propertyNames', fc.constantFrom({ pattern: '^[a-c]' }, { maxLength: 2 }, { enum: ['a', 'cd'] })),
          keyword('dependentSchemas', fc.dictionary(names, tie('schema'), { maxKeys: 1 })),
          keyword('items', tie('schema')),
          keyword('prefixItems', some),
          // Ajv takes '[]' beside 'prefixItems' where it is to contain anything.
          keyword(
            'contains',
            tie('schema').filter((schema) => Object.keys(schema).length > 0),
          ),
          keyword('not', tie('schema')),
          keyword('allOf', some),
          keyword('anyOf', some),
          keyword('oneOf', some),
          fc.tuple(tie('schema'), tie('schema'), tie('schema')).map(([one, two, three]) => ({
            ...{ if: one, else: three },
            // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema.
            then: two,
          })),
        ),
        { maxLength: 4 },
      )
      .map((parts) => Object.assign({}, ...parts) as object),
  }
}).schema

/** Null where Ajv fails on a schema. */
function validatorOrNull(schema: object): ReturnType<typeof schemaValidator> | null {
  try {
    return schemaValidator(schema)
  } catch {
    return null
  }
}

test('every text that is let through is valid, for any keywords that stand together', () => {
  let finished = 0
  fc.assert(
    fc.property(keywords, fc.nat(), (schema, seed) => {
      const grammar = grammarOrNull(schema)
      if (grammar === null) return
      const valid = validatorOrNull(schema)
      if (valid === null) return
      for (let draw = 0; draw < 3; draw++) {
        const written = randomText(grammar, generator(seed + draw), 400)
        if (written === null) continue
        let isValid: boolean
        try {
          isValid = valid(JSON.parse(written))
        } catch {
          // Ajv's code for some schemas does not run.
          return
        }
        finished++
        expect([written, isValid, valid.errors]).toEqual([written, true, null])
      }
    }),
    { numRuns: 300, seed: 1 },
  )
  expect(finished).toBeGreaterThan(100)
})
