import { PatternError } from './regex/parser.ts'
import { SearchMatcher } from './regex/search-matcher.ts'

type Schema = Readonly<Record<string, unknown>>

/** Schemas that all describe the same value. */
export type Conjunction = readonly unknown[]

/** The keywords of one value, in which all that several schemas say of it has come together. */
export interface Plain {
  /** Absent for any. */
  readonly types?: readonly string[]
  readonly enum?: readonly unknown[]
  readonly properties?: ReadonlyMap<string, Conjunction>
  readonly required?: readonly string[]
  readonly additionalProperties?: Conjunction
  readonly items?: Conjunction
  readonly prefixItems?: readonly Conjunction[]
  readonly pattern?: string
  readonly format?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minItems?: number
  readonly maxItems?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly exclusiveMinimum?: number
  readonly exclusiveMaximum?: number
}

type Bound = (typeof LOWEST)[number] | (typeof HIGHEST)[number]

const LOWEST = ['minLength', 'minItems', 'minimum', 'exclusiveMinimum'] as const
const HIGHEST = ['maxLength', 'maxItems', 'maximum', 'exclusiveMaximum'] as const
const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']
/** The type that each keyword is about. */
const ABOUT: Readonly<Record<string, string>> = {
  ...{ properties: 'object', required: 'object', additionalProperties: 'object' },
  ...{ items: 'array', prefixItems: 'array', minItems: 'array', maxItems: 'array' },
  ...{ minLength: 'string', maxLength: 'string', pattern: 'string', format: 'string' },
  ...{ minimum: 'number', maximum: 'number', exclusiveMinimum: 'number', exclusiveMaximum: 'number' },
}

/** What a schema itself says of a value, in keywords that can be kept. Those of a wrong form are left out. */
export function alternativeOf(schema: Schema): Plain {
  const { type, enum: values, properties, required, additionalProperties, items, prefixItems } = schema
  const { minimum, maximum } = schema
  const isWhole = Number.isInteger(schema.multipleOf)
  const named = (Array.isArray(type) ? type : [type]).filter((name) => TYPES.includes(name))
  const types = named.map((name) => (name === 'number' && isWhole ? 'integer' : name))
  const constants = Object.hasOwn(schema, 'const') ? [schema.const] : Array.isArray(values) ? values : []
  const tuple = Array.isArray(items) ? items : prefixItems
  const others = Array.isArray(items) ? schema.additionalItems : items
  const texts = (['pattern', 'format'] as const).filter((keyword) => typeof schema[keyword] === 'string')
  const bounds = [...LOWEST, ...HIGHEST].filter((keyword) => typeof schema[keyword] === 'number')
  return relevant({
    ...(types.length === 0 ? {} : { types }),
    ...(constants.length === 0 ? {} : { enum: constants }),
    ...(isSchemaMap(properties) && {
      properties: new Map(
        Object.entries(properties).flatMap(([name, inner]) => (isWritable(name) ? [[name, [inner]] as const] : [])),
      ),
    }),
    ...(Array.isArray(required) && { required: required.filter(isWritable) }),
    ...(additionalProperties === undefined ? {} : { additionalProperties: [additionalProperties] }),
    ...(Array.isArray(tuple) ? { prefixItems: tuple.map((item) => [item]) } : {}),
    ...(others === undefined ? {} : { items: [others] }),
    ...Object.fromEntries([...texts, ...bounds].map((keyword) => [keyword, schema[keyword]])),
    // In draft 4, the other keyword has the bound.
    ...(schema.exclusiveMinimum === true && typeof minimum === 'number' ? { exclusiveMinimum: minimum } : {}),
    ...(schema.exclusiveMaximum === true && typeof maximum === 'number' ? { exclusiveMaximum: maximum } : {}),
  })
}

/** What satisfies both; null where nothing can. Of two patterns or formats the first is kept. */
export function together(a: Plain, b: Plain): Plain | null {
  const types = typesOfBoth(a.types, b.types)
  if (types?.length === 0) return null
  const values = a.enum === undefined || b.enum === undefined ? (a.enum ?? b.enum) : common(a.enum, b.enum)
  if (values?.length === 0) return null
  const required = [...new Set([...(a.required ?? []), ...(b.required ?? [])])]
  const properties = propertiesOfBoth(a, b, required)
  const items = joined(a.items, b.items)
  const prefixItems = tupleOfBoth(a, b)
  const additionalProperties = joined(a.additionalProperties, b.additionalProperties)
  return relevant({
    ...b,
    ...a,
    ...(types === undefined ? {} : { types }),
    ...(values === undefined ? {} : { enum: values }),
    ...(required.length === 0 ? {} : { required }),
    ...(properties === undefined ? {} : { properties }),
    ...(items === undefined ? {} : { items }),
    ...(prefixItems === undefined ? {} : { prefixItems }),
    ...(additionalProperties === undefined ? {} : { additionalProperties }),
    ...Object.fromEntries(LOWEST.flatMap((keyword) => boundOf(keyword, a, b, Math.max))),
    ...Object.fromEntries(HIGHEST.flatMap((keyword) => boundOf(keyword, a, b, Math.min))),
  })
}

function boundOf(keyword: Bound, a: Plain, b: Plain, tighter: (a: number, b: number) => number): [Bound, number][] {
  const [first, second] = [a[keyword] ?? b[keyword], b[keyword] ?? a[keyword]]
  return first === undefined || second === undefined ? [] : [[keyword, tighter(first, second)]]
}

/** Whether its only type is one whose bounds leave nothing. */
export function hasNoRoom({ types, ...bounds }: Plain): boolean {
  if (types?.length !== 1) return false
  const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY, minLength = 0, minItems = 0 } = bounds
  const { exclusiveMinimum: above = minimum, exclusiveMaximum: below = maximum } = bounds
  const isEmpty = Math.max(minimum, above) > Math.min(maximum, below)
  return isEmpty || minLength > (bounds.maxLength ?? minLength) || minItems > (bounds.maxItems ?? minItems)
}

/** Where keywords are about several types and no type is said; a grammar takes those about one for a type. */
export function impliedTypes(plain: Plain): Plain['types'] {
  const implied = new Set(Object.keys(plain).flatMap((keyword) => ABOUT[keyword] ?? []))
  return implied.size > 1 ? [...implied] : undefined
}

/** Without what is about other types than those that it allows. */
function relevant(plain: Plain): Plain {
  const { types } = plain
  if (types === undefined) return plain
  const numbers = types.includes('integer') ? ['number'] : []
  const kept = Object.entries(plain).filter(
    ([keyword]) => ABOUT[keyword] === undefined || [...types, ...numbers].includes(ABOUT[keyword]),
  )
  return Object.fromEntries(kept)
}

function typesOfBoth(a: Plain['types'], b: Plain['types']): Plain['types'] {
  if (a === undefined || b === undefined) return a ?? b
  const narrowed = (types: readonly string[], others: readonly string[]) =>
    types.filter((type) => others.includes(type) || (type === 'integer' && others.includes('number')))
  return [...new Set([...narrowed(a, b), ...narrowed(b, a)])]
}

function common(a: readonly unknown[], b: readonly unknown[]): readonly unknown[] {
  const known = new Set(b.map((value) => JSON.stringify(value)))
  return a.filter((value) => known.has(JSON.stringify(value)))
}

function joined(a: Conjunction | undefined, b: Conjunction | undefined): Conjunction | undefined {
  return a === undefined || b === undefined ? (a ?? b) : [...new Set([...a, ...b])]
}

/** One that only one of them names is what the other says of all others, unless that forbids what is required. */
function propertiesOfBoth(a: Plain, b: Plain, required: readonly string[]): Plain['properties'] {
  if (a.properties === undefined && b.properties === undefined) return undefined
  const names = new Set([...(a.properties?.keys() ?? []), ...(b.properties?.keys() ?? [])])
  return new Map(
    Array.from(names, (name) => {
      const said = [a, b].flatMap(
        ({ properties, additionalProperties = [] }) => properties?.get(name) ?? additionalProperties,
      )
      const kept = required.includes(name) ? said.filter((schema) => schema !== false) : said
      return [name, [...new Set(kept.length === 0 ? [true] : kept)]]
    }),
  )
}

function tupleOfBoth(a: Plain, b: Plain): Plain['prefixItems'] {
  const length = Math.max(a.prefixItems?.length ?? -1, b.prefixItems?.length ?? -1)
  if (length < 0) return undefined
  return Array.from(
    { length },
    (_, at) => joined(a.prefixItems?.[at] ?? a.items, b.prefixItems?.[at] ?? b.items) ?? [true],
  )
}

/**
 * Whether a value satisfies the keywords, constants aside.
 * @param fitsAll tells whether a part of the value satisfies all of some schemas.
 */
export function fits(value: unknown, plain: Plain, fitsAll: (part: unknown, schemas: Conjunction) => boolean): boolean {
  const type = typeOf(value)
  const isAllowed = plain.types?.some((name) => name === type || (name === 'integer' && Number.isInteger(value)))
  if (isAllowed === false) return false
  if (typeof value === 'number') {
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = plain
    const isWithin = value >= (minimum ?? value) && value <= (maximum ?? value)
    const { NEGATIVE_INFINITY: lowest, POSITIVE_INFINITY: highest } = Number
    return isWithin && value > (exclusiveMinimum ?? lowest) && value < (exclusiveMaximum ?? highest)
  }
  if (typeof value === 'string') {
    const { length } = [...value]
    const { minLength = 0, maxLength = length, pattern } = plain
    return length >= minLength && length <= maxLength && (pattern === undefined || matches(value, pattern))
  }
  if (Array.isArray(value)) {
    const { minItems = 0, maxItems = value.length, items = [true], prefixItems = [] } = plain
    const fit = value.every((item, at) => fitsAll(item, prefixItems[at] ?? items))
    return fit && value.length >= minItems && value.length <= maxItems
  }
  if (typeof value !== 'object' || value === null) return true
  const { properties, required = [], additionalProperties = [true] } = plain
  return (
    required.every((name) => Object.hasOwn(value, name)) &&
    Object.entries(value).every(([name, inner]) => fitsAll(inner, properties?.get(name) ?? additionalProperties))
  )
}

/** A pattern that is not supported is not kept either. */
function matches(text: string, pattern: string): boolean {
  try {
    return new SearchMatcher(pattern).test(text)
  } catch (error) {
    if (error instanceof PatternError) return true
    throw error
  }
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

/** A grammar has no property `__proto__`; the others of its object are kept. */
function isWritable(name: unknown): name is string {
  return typeof name === 'string' && name !== '__proto__'
}

function isSchemaMap(value: unknown): value is Schema {
  return typeOf(value) === 'object'
}
