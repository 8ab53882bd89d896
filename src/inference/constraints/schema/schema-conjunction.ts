export type Schema = Readonly<Record<string, unknown>>
export type Path = readonly (string | number)[]

/** A schema that a value must satisfy or, if `negated`, must not satisfy. */
export interface Part {
  readonly schema: unknown
  /** The schema's path in the client's schema. */
  readonly path: Path
  /** The base against which its references are resolved. */
  readonly base: string
  readonly negated: boolean
}

/** Parts that describe the same value. */
export type Conjunction = readonly Part[]

/**
 * What one schema says about the members of an object. `additional` applies to members that nothing else here
 * describes.
 */
export interface ObjectShape {
  readonly properties: ReadonlyMap<string, Part>
  readonly patterns: readonly { readonly source: string; readonly part: Part; readonly path: Path }[]
  readonly additional?: Part
  /** Whether `unevaluatedProperties` counts these members as described. */
  readonly isEvaluated: boolean
}

/** What one schema says about the items of an array. */
export interface ArrayShape {
  readonly prefix: readonly Part[]
  /** The schema of the remaining items. */
  readonly rest?: Part
  /** Whether `unevaluatedItems` counts these items as described. */
  readonly isEvaluated: boolean
}

interface Contains {
  readonly part: Part
  readonly min: number
  readonly max: number | null
}

export interface Source<Value> {
  readonly value: Value
  readonly path: Path
}

/** The combined keywords of all schemas that describe one value. Absent ones impose no condition. */
export interface Plain {
  readonly types?: readonly string[]
  readonly enum?: readonly unknown[]
  /** Values that it must not be. */
  readonly excluded?: readonly unknown[]
  readonly objects?: readonly ObjectShape[]
  readonly required?: readonly string[]
  readonly names?: Conjunction
  readonly arrays?: readonly ArrayShape[]
  readonly contains?: readonly Contains[]
  readonly uniqueItems?: boolean
  readonly patterns?: readonly Source<string>[]
  readonly notPatterns?: readonly Source<string>[]
  readonly formats?: readonly Source<string>[]
  readonly multiples?: readonly Source<number>[]
  readonly bounds?: Readonly<Partial<Record<Bound, number>>>
  /** Whether the constants have types that the schema does not allow. */
  readonly isMisfit?: boolean
  /** The path of each keyword in the client's schema, for errors. */
  readonly where?: Readonly<Record<string, Path>>
}

export type Bound = (typeof LOWEST)[number] | (typeof HIGHEST)[number]

export const LOWEST = ['minLength', 'minItems', 'minProperties', 'minimum', 'exclusiveMinimum'] as const
export const HIGHEST = ['maxLength', 'maxItems', 'maxProperties', 'maximum', 'exclusiveMaximum'] as const
export const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']
/** The type that each part of a `Plain`, or each bound, applies to. */
const ABOUT: Readonly<Record<string, string>> = {
  ...{ objects: 'object', required: 'object', names: 'object', minProperties: 'object', maxProperties: 'object' },
  ...{ arrays: 'array', contains: 'array', uniqueItems: 'array', minItems: 'array', maxItems: 'array' },
  ...{ patterns: 'string', notPatterns: 'string', formats: 'string', minLength: 'string', maxLength: 'string' },
  ...{ multiples: 'number', minimum: 'number', maximum: 'number' },
  ...{ exclusiveMinimum: 'number', exclusiveMaximum: 'number' },
}

/** The conjunction of both; null if it is obvious that nothing satisfies it. */
export function together(a: Plain, b: Plain): Plain | null {
  const types = bothTypes(a.types, b.types)
  if (types?.length === 0) return null
  const excluded = union(a.excluded, b.excluded)
  const values = a.enum === undefined || b.enum === undefined ? (a.enum ?? b.enum) : common(a.enum, b.enum)
  const allowed = values?.filter((value) => (types === undefined || isOfTypes(value, types)) && !isIn(value, excluded))
  if (allowed?.length === 0) return null
  const merged: Plain = {
    ...(types && { types }),
    ...(allowed && { enum: allowed }),
    ...Object.fromEntries(LISTED.flatMap((keyword) => joined(keyword, a, b))),
    ...(excluded && { excluded }),
    ...((a.uniqueItems || b.uniqueItems) && { uniqueItems: true }),
    ...((a.isMisfit || b.isMisfit) && { isMisfit: true }),
    ...((a.bounds || b.bounds) && { bounds: boundsOfBoth(a.bounds ?? {}, b.bounds ?? {}) }),
    ...((a.where || b.where) && { where: { ...b.where, ...a.where } }),
  }
  return types?.length === 1 && hasNoRoom(types[0]!, merged) ? null : merged
}

/** Keywords whose lists are concatenated. */
const LISTED = [
  ...(['objects', 'required', 'names', 'arrays', 'contains'] as const),
  ...(['patterns', 'notPatterns', 'formats', 'multiples'] as const),
]

function joined(keyword: (typeof LISTED)[number], a: Plain, b: Plain): [string, readonly unknown[]][] {
  const all = union<unknown>(a[keyword], b[keyword])
  return all === undefined ? [] : [[keyword, all]]
}

function union<Item>(a: readonly Item[] | undefined, b: readonly Item[] | undefined): readonly Item[] | undefined {
  return a === undefined || b === undefined ? (a ?? b) : [...new Set([...a, ...b])]
}

function boundsOfBoth(a: NonNullable<Plain['bounds']>, b: NonNullable<Plain['bounds']>): Plain['bounds'] {
  const tighter = (names: readonly Bound[], pick: (a: number, b: number) => number) =>
    names.flatMap((name) => {
      const [first, second] = [a[name] ?? b[name], b[name] ?? a[name]]
      return first === undefined || second === undefined ? [] : [[name, pick(first, second)]]
    })
  return Object.fromEntries([...tighter(LOWEST, Math.max), ...tighter(HIGHEST, Math.min)])
}

/** Whether the bounds allow no value of a type. */
export function hasNoRoom(type: string, { bounds = {}, required = [] }: Plain): boolean {
  switch (type) {
    case 'string':
      return (bounds.minLength ?? 0) > (bounds.maxLength ?? Number.POSITIVE_INFINITY)
    case 'array':
      return (bounds.minItems ?? 0) > (bounds.maxItems ?? Number.POSITIVE_INFINITY)
    case 'object':
      return Math.max(bounds.minProperties ?? 0, required.length) > (bounds.maxProperties ?? Number.POSITIVE_INFINITY)
    case 'number':
    case 'integer': {
      const { minimum = Number.NEGATIVE_INFINITY, maximum = Number.POSITIVE_INFINITY } = bounds
      const { exclusiveMinimum: above = Number.NEGATIVE_INFINITY, exclusiveMaximum: below = Number.POSITIVE_INFINITY } =
        bounds
      return minimum > maximum || above >= maximum || minimum >= below || above >= below
    }
    default:
      return false
  }
}

/** The types that the keywords apply to. */
export function impliedTypes(plain: Plain): readonly string[] {
  return [...new Set([...Object.keys(plain), ...Object.keys(plain.bounds ?? {})].flatMap((name) => ABOUT[name] ?? []))]
}

/**
 * The parts that describe a member with this name.
 * @param matches whether a pattern matches somewhere in a name.
 */
export function memberParts(
  { objects = [] }: Plain,
  name: string,
  matches: (source: string, name: string) => boolean,
): Conjunction {
  return objects.flatMap(({ properties, patterns, additional }) => {
    const own = properties.get(name)
    const found = patterns.filter(({ source }) => matches(source, name)).map(({ part }) => part)
    const said = own === undefined ? found : [own, ...found]
    return said.length > 0 || additional === undefined ? said : [additional]
  })
}

/** The parts that describe the item at an index. */
export function itemParts({ arrays = [] }: Plain, at: number): Conjunction {
  return arrays.flatMap(({ prefix, rest }) => prefix[at] ?? rest ?? [])
}

export function isOfTypes(value: unknown, types: readonly string[]): boolean {
  const type = typeOf(value)
  return types.includes(type) || (type === 'number' && types.includes('integer') && Number.isInteger(value))
}

export function typeOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

export function isObject(value: unknown): value is Schema {
  return typeOf(value) === 'object'
}

/** All types but the given ones, as far as type names can express it. */
export function otherTypes(types: readonly string[]): readonly string[] {
  return TYPES.filter((type) => !types.includes(type) && type !== 'integer').filter(
    (type) => type !== 'number' || !types.includes('integer'),
  )
}

export function isIn(value: unknown, values: readonly unknown[] = []): boolean {
  const isScalar = typeof value !== 'object' || value === null
  return isScalar ? values.includes(value) : values.some((other) => isEqual(value, other))
}

/** Whether two values are the same JSON. Keys such as `toString` have no special meaning. */
export function isEqual(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b)) return false
  const [first, second] = [a as Schema, b as Schema]
  const keys = Object.keys(first)
  return (
    keys.length === Object.keys(second).length &&
    keys.every((key) => Object.hasOwn(second, key) && isEqual(first[key], second[key]))
  )
}

function common(a: readonly unknown[], b: readonly unknown[]): readonly unknown[] {
  const scalars = new Set(b)
  return a.filter((value) => scalars.has(value) || (typeof value === 'object' && value !== null && isIn(value, b)))
}

/** Undefined for any type. */
function bothTypes(a: Plain['types'], b: Plain['types']): Plain['types'] {
  if (a === undefined || b === undefined) return a ?? b
  const narrowed = (types: readonly string[], others: readonly string[]) =>
    types.filter((type) => others.includes(type) || (type === 'integer' && others.includes('number')))
  return [...new Set([...narrowed(a, b), ...narrowed(b, a)])]
}

/** Marks what a schema below `not` describes as unevaluated for `unevaluatedProperties` and `unevaluatedItems`. */
export function unevaluated(plain: Plain): Plain {
  const hidden = <Shape extends ObjectShape | ArrayShape>(shape: Shape): Shape => ({ ...shape, isEvaluated: false })
  return {
    ...plain,
    ...(plain.objects && { objects: plain.objects.map(hidden) }),
    ...(plain.arrays && { arrays: plain.arrays.map(hidden) }),
  }
}

/** A condition on one member, which `unevaluatedProperties` does not count as described. */
export function withMember(name: string, part: Part): Plain {
  return { objects: [{ properties: new Map([[name, part]]), patterns: [], isEvaluated: false }] }
}

/** The condition that an object lacks a member. */
export function withoutMember(name: string, path: Path): Plain {
  return withMember(name, { schema: false, path, base: '', negated: false })
}
