import { parsePattern } from '../../src/inference/constraints/regex/anchors.ts'
import { FORMATS } from '../../src/inference/constraints/schema/formats.ts'
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
 * Turns a supported schema into one that allows exactly the values that the grammar allows: the narrowings of `docs/json-schema.md`, in JSON
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
  if (typeof schema.format === 'string') {
    delete promised.format
    promised.pattern = toRegExp(parsePattern(FORMATS[schema.format]!.pattern)).source
  }
  return promised
}

/**
 * Whether some form of a value is accepted: as the constraints write JSON, with the keys of its objects in any order. Forms
 * come one by one and end at a limit: an object of ten keys alone has 3.6 million.
 */
export function someForm(value: unknown, accepts: (form: string) => boolean): boolean {
  let tries = 0
  for (const form of formsIn(value)) {
    if (accepts(form)) return true
    if (++tries === MOST_FORMS) break
  }
  return false
}

const MOST_FORMS = 5000

function* formsIn(value: unknown): Generator<string> {
  if (Array.isArray(value)) {
    for (const items of combined(value)) yield `[${items.join(', ')}]`
  } else if (isObject(value)) {
    for (const members of orders(Object.entries(value))) {
      for (const forms of combined(members.map(([, inner]) => inner))) {
        yield `{${members.map(([key], index) => `${JSON.stringify(key)}: ${forms[index]}`).join(', ')}}`
      }
    }
  } else yield JSON.stringify(value)
}

/** Every combination of a form of each value. */
function* combined([value, ...others]: readonly unknown[]): Generator<string[]> {
  if (value === undefined) return yield []
  for (const form of formsIn(value)) for (const rest of combined(others)) yield [form, ...rest]
}

function* orders<Item>(items: readonly Item[]): Generator<Item[]> {
  if (items.length <= 1) return yield [...items]
  for (const [index, first] of items.entries())
    for (const rest of orders(items.toSpliced(index, 1))) yield [first, ...rest]
}

function mapValues(values: Schema, map: (value: unknown) => unknown): Schema {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, map(value)]))
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
