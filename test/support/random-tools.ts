import fc from 'fast-check'
import type { Tool } from '../../src/conversation/request/tool.ts'

/** A schema with a value that it allows. */
interface Sample {
  readonly schema: object
  readonly value: unknown
}

const PIECES = ['{', '}', '"', '\\', '[', ']', '\n', '<', '</', '<|', '</tool_call', 'null', '5', ' ', ':', ',', '>']
const MARKS = ['<|"|>', '</parameter>', '</function>', '<tool_call|>', '</param>', '</arg_value>', '<![CDATA[']
const text = fc
  .array(fc.oneof(fc.string({ unit: 'grapheme', maxLength: 5 }), fc.constantFrom(...PIECES)), { maxLength: 6 })
  .map((parts) => parts.join(''))
  // JSON leaves control characters without a short escape out.
  .filter((value) => !JSON.stringify(value).includes('\\u00') && !MARKS.some((mark) => value.includes(mark)))
const names = fc.constantFrom('a', 'size', 'é"', 'long name', 'x:y', 'toString', '"')

const samples = fc.letrec<{ any: Sample; object: Sample }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 3 },
    text.map((value) => ({ schema: { type: 'string' }, value })),
    text.map((value) => ({ schema: { enum: [value, 'other', '5', 'null'] }, value })),
    fc.stringMatching(/^[a-c]{1,9}$/).map((value) => ({ schema: { type: 'string', pattern: '^[a-c]+$' }, value })),
    fc
      .integer({ min: -40, max: 900 })
      .map((value) => ({ schema: { type: 'integer', minimum: -40, maximum: 900 }, value })),
    fc.integer({ min: -90_000, max: 90_000 }).map((n) => ({ schema: { type: 'number' }, value: n / 100 || 0 })),
    fc.boolean().map((value) => ({ schema: { type: ['boolean', 'null'] }, value })),
    fc.constantFrom('metric', null).map((value) => ({ schema: { enum: ['metric', 'imperial', null] }, value })),
    fc
      .oneof(text, fc.constant(null))
      .filter((value) => value !== 'null')
      .map((value) => ({
        schema: { anyOf: [{ type: 'string' }, { type: 'null' }] },
        value,
      })),
    tie('any').chain(({ schema, value }) =>
      fc.nat(3).map((count) => ({ schema: { type: 'array', items: schema }, value: Array(count).fill(value) })),
    ),
    tie('object'),
  ),
  object: fc
    .tuple(fc.uniqueArray(names, { maxLength: 4 }), fc.infiniteStream(fc.tuple(tie('any'), fc.boolean(), fc.boolean())))
    .map(([keys, drawn]) => {
      const members = keys.map((key) => {
        const [sample, required, given] = drawn.next().value!
        return { key, ...sample, required, given: required || given }
      })
      return {
        schema: {
          type: 'object',
          properties: Object.fromEntries(members.map(({ key, schema }) => [key, schema])),
          required: members.filter(({ required }) => required).map(({ key }) => key),
          additionalProperties: false,
        },
        value: Object.fromEntries(members.filter(({ given }) => given).map(({ key, value }) => [key, value])),
      }
    }),
}))

/** Schemas of a tool's arguments, each with arguments that it allows. */
export const randomArguments = samples.object

const VALUES = ['other', 5, null, true]

/** The same values and more, said in another way: by schemas together, by alternatives, by references. */
function retold({ schema, value }: Sample, way: number, pointer: string): { schema: object; defs: object } {
  const { type } = schema as { readonly type?: string }
  const kind = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value
  const properties = Object.entries((schema as { properties?: object }).properties ?? {})
  const { required = [], ...rest } = schema as { required?: string[] }
  const asked = { allOf: [{ required }, { ...rest, description: 'd' }] }
  const ways: object[] = [
    { allOf: [schema, { description: 'said twice' }] },
    { allOf: [{ type: kind }, schema] },
    { type: kind, anyOf: [{ type: 'null' }, schema] },
    { description: 'no value of its type', type: kind, enum: [...VALUES, value] },
    { type: kind, const: value },
    { anyOf: [{ allOf: [schema, { enum: [value] }] }, { type: 'boolean' }] },
    { type: [kind, 'null'], allOf: [{ anyOf: [schema, { type: 'null' }] }] },
    { $ref: pointer, type: kind },
    { $ref: pointer, description: 'd' },
    { allOf: [{ $ref: pointer }, { type: kind }], title: 't' },
    { oneOf: [{ type: 'integer', minimum: 2, maximum: 1 }, { $ref: pointer }] },
    { type: 'array', items: { allOf: [schema, schema] }, minItems: 1 },
    properties.length > 0 && type === 'object' ? asked : schema,
    properties.length > 1 && type === 'object'
      ? {
          allOf: [properties.slice(0, 1), properties.slice(1)].map((some) => ({
            type: 'object',
            properties: Object.fromEntries(some),
            required: required.filter((name) => some.some(([own]) => own === name)),
          })),
        }
      : schema,
  ]
  return { schema: ways[way % ways.length]!, defs: schema }
}

/** Arguments that `allOf`, `anyOf`, `oneOf`, `$ref` and constants describe beside other keywords. Each has some value. */
export const combinedArguments = fc
  .array(fc.tuple(samples.any, fc.nat(100)), { minLength: 1, maxLength: 4 })
  .map((members) => {
    const told = members.map(([sample, way], at) => retold(sample, way, `#/$defs/d${at}`))
    return {
      type: 'object',
      properties: Object.fromEntries(told.map(({ schema }, at) => [`m${at}`, schema])),
      required: told.map((_, at) => `m${at}`),
      $defs: Object.fromEntries(told.map(({ defs }, at) => [`d${at}`, defs])),
    }
  })

/** Two tools whose arguments the schema describes. */
export function toolsFor(schema: object): Tool[] {
  const parameters = JSON.stringify(schema)
  return ['weather', 'ns.look-up'].map((name) => ({ name, description: null, parameters }))
}
