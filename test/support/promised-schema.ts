import { FORMATS } from '../../src/inference/constraints/formats.ts'
import { parsePattern } from '../../src/inference/constraints/regex/parser.ts'
import { toRegExp } from './reg-exp.ts'

type Schema = Readonly<Record<string, unknown>>

/** Keywords that hold a schema, a list of schemas, or schemas by name. */
const SINGLE = ['items', 'additionalProperties']
const LISTS = ['prefixItems', 'anyOf', 'oneOf', 'allOf']
const NAMED = ['properties', '$defs', 'definitions']
const TYPE_OF_KEYWORDS: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
}

/**
 * A schema of exactly the values that a supported schema lets through: the narrowings of `docs/json-schema.md`, in JSON
 * Schema's own words.
 */
export function promisedSchema(schema: unknown): unknown {
  if (!isObject(schema)) return schema
  const { $schema: _, ...promised }: Record<string, unknown> = { ...schema }
  for (const key of SINGLE) if (isObject(schema[key])) promised[key] = promisedSchema(schema[key])
  for (const key of LISTS) if (Array.isArray(schema[key])) promised[key] = schema[key].map(promisedSchema)
  for (const key of NAMED) if (isObject(schema[key])) promised[key] = mapValues(schema[key], promisedSchema)
  const implied = Object.entries(TYPE_OF_KEYWORDS).find(([, keywords]) => keywords.some((key) => key in schema))
  if (implied !== undefined && schema.type === undefined) promised.type = implied[0]
  const described = (promised.properties ?? {}) as Schema
  const required = (schema.required ?? []) as readonly string[]
  if (required.length > 0 || Object.keys(described).length > 0) {
    const others = promised.additionalProperties ?? true
    const undescribed = required.filter((name) => !Object.hasOwn(described, name))
    promised.properties = { ...Object.fromEntries(undescribed.map((name) => [name, others])), ...described }
    promised.additionalProperties = false
  }
  if (Array.isArray(schema.prefixItems)) {
    Object.assign(promised, { minItems: schema.prefixItems.length, maxItems: schema.prefixItems.length })
  }
  if (typeof schema.pattern === 'string') promised.pattern = toRegExp(parsePattern(schema.pattern)).source
  if (typeof schema.format === 'string') {
    delete promised.format
    promised.pattern = toRegExp(parsePattern(FORMATS[schema.format]!)).source
  }
  return promised
}

/** A value as the constraints write JSON, with the keys of its objects in every order, up to a limit. */
export function formsOf(value: unknown): string[] {
  if (Array.isArray(value)) return combined(value.map(formsOf)).map((items) => `[${items.join(', ')}]`)
  if (!isObject(value)) return [JSON.stringify(value)]
  return orders(Object.entries(value)).flatMap((members) => {
    const texts = members.map(([key, inner]) => formsOf(inner).map((text) => `${JSON.stringify(key)}: ${text}`))
    return combined(texts).map((parts) => `{${parts.join(', ')}}`)
  })
}

const MOST_FORMS = 500

function combined(options: readonly (readonly string[])[]): string[][] {
  return options.reduce<string[][]>(
    (rows, texts) => rows.flatMap((row) => texts.map((text) => [...row, text])).slice(0, MOST_FORMS),
    [[]],
  )
}

function orders<Item>(items: readonly Item[]): Item[][] {
  if (items.length <= 1) return [[...items]]
  return items
    .flatMap((first, index) => orders(items.toSpliced(index, 1)).map((rest) => [first, ...rest]))
    .slice(0, MOST_FORMS)
}

function mapValues(values: Schema, map: (value: unknown) => unknown): Schema {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, map(value)]))
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
