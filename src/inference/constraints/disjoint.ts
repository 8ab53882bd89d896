type Schema = Readonly<Record<string, unknown>>

/**
 * Whether no value can match two of the schemas, as far as that shows: by their types, by constants, or by a property
 * that each requires to have a value of its own.
 * @param resolve gives the schema that a reference stands for.
 */
export function disjoint(schemas: readonly unknown[], resolve: (reference: string) => unknown): boolean {
  const resolved = schemas.map((schema) => follow(schema, resolve))
  return resolved.every((a, i) => resolved.slice(i + 1).every((b) => apart(a, b)))
}

function follow(schema: unknown, resolve: (reference: string) => unknown, hops = 10): Schema | null {
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return null
  const { $ref } = schema as Schema
  if (typeof $ref !== 'string') return schema as Schema
  return hops === 0 ? null : follow(resolve($ref), resolve, hops - 1)
}

function apart(a: Schema | null, b: Schema | null): boolean {
  if (a === null || b === null) return false
  return noneInCommon(typesOf(a), typesOf(b)) || noneInCommon(valuesOf(a), valuesOf(b)) || propertiesApart(a, b)
}

function propertiesApart(a: Schema, b: Schema): boolean {
  return Object.entries(requiredOf(a)).some(([name, schema]) => {
    const other = requiredOf(b)[name]
    return other !== undefined && noneInCommon(valuesOf(schema), valuesOf(other))
  })
}

function requiredOf(schema: Schema): Record<string, Schema> {
  const { properties, required } = schema
  if (typeof properties !== 'object' || properties === null || !Array.isArray(required)) return {}
  const entries = Object.entries(properties).filter(([name, inner]) => required.includes(name) && isObject(inner))
  return Object.fromEntries(entries)
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}

function typesOf({ type }: Schema): readonly unknown[] | null {
  if (type === undefined) return null
  const types = Array.isArray(type) ? type : [type]
  return types.map((name) => (name === 'integer' ? 'number' : name))
}

function valuesOf(schema: Schema): readonly unknown[] | null {
  if (Array.isArray(schema.enum)) return schema.enum.map((value) => JSON.stringify(value))
  return schema.const === undefined ? null : [JSON.stringify(schema.const)]
}

/** Null stands for anything. */
function noneInCommon(a: readonly unknown[] | null, b: readonly unknown[] | null): boolean {
  return a !== null && b !== null && !a.some((value) => b.includes(value))
}
