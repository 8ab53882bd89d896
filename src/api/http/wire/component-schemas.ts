import { z } from 'zod'
import { requestSchemas, responseSchemas } from './components.ts'

/** A JSON schema, with the keywords that zod writes. */
interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly description?: string
  readonly const?: string
  readonly default?: unknown
  readonly enum?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: unknown
  readonly required?: readonly string[]
  readonly anyOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
}
type Schemas = Readonly<Record<string, Schema>>

const REFERENCE = '#/components/schemas/'

/**
 * Returns the named schemas that the paths of `openapi.json` refer to, directly or indirectly. Schemas for which client
 * generators have no type are described more loosely.
 */
export function schemasOf(paths: object): Schemas {
  const exact = { ...generated(requestSchemas, 'input'), ...generated(responseSchemas, 'output') }
  const all = Object.entries(exact).map(([id, schema]) => [id, adapted(schema, exact) as Schema] as const)
  const byId = new Map(all)
  const used = new Set<string>()
  const visit = (value: unknown) => {
    for (const id of idsIn(value)) {
      if (used.has(id)) continue
      used.add(id)
      visit(byId.get(id))
    }
  }
  visit(paths)
  return Object.fromEntries(all.filter(([id]) => used.has(id)))
}

function generated(registry: typeof requestSchemas, io: 'input' | 'output'): Schemas {
  const { schemas } = z.toJSONSchema(registry, {
    uri: (id) => `${REFERENCE}${id}`,
    io,
    override: ({ jsonSchema }) => {
      widenNumber(jsonSchema)
      // Responses may get further fields later.
      if (io === 'output' && jsonSchema.additionalProperties === false) delete jsonSchema.additionalProperties
    },
  })
  return Object.fromEntries(Object.entries(schemas).map(([id, { $schema, $id, ...schema }]) => [id, schema as Schema]))
}

/** Adds a format: without one, generated clients in some languages use 32-bit numbers. */
function widenNumber(schema: z.core.JSONSchema.BaseSchema): void {
  if (schema.type === 'number') schema.format = 'double'
  // Zod writes JavaScript's limits for integers without limits.
  if (schema.type !== 'integer' || schema.maximum !== Number.MAX_SAFE_INTEGER) return
  delete schema.maximum
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  schema.format = 'int64'
}

function idsIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    key === '$ref' ? (idOf(value as Schema) ?? []) : idsIn(inner),
  )
}

function idOf({ $ref }: Schema): string | null {
  return $ref?.startsWith(REFERENCE) ? $ref.slice(REFERENCE.length) : null
}

function adapted(value: unknown, all: Schemas): unknown {
  if (Array.isArray(value)) return value.map((inner) => adapted(inner, all))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(adaptedSchema(value as Schema, all)).map(([key, inner]) => [
      key,
      key === 'properties' ? adaptedProperties(inner as Schemas, all) : adapted(inner, all),
    ]),
  )
}

/** The names of properties are not keywords. */
function adaptedProperties(properties: Schemas, all: Schemas): Schemas {
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => {
      if (schema.type === 'null') return [name, described(schema, 'Always null.')]
      return [name, adapted(withoutDefault(schema), all) as Schema]
    }),
  )
}

/**
 * Describes a default in words: types in TypeScript require fields that have one, and no client in Go accepts an
 * object.
 */
function withoutDefault({ default: value, ...schema }: Schema): Schema {
  if (value === undefined || value === null || typeof value === 'object') return schema
  return { ...schema, ...described(schema, `Default: \`${value}\`.`) }
}

function adaptedSchema(schema: Schema, all: Schemas): Schema {
  const members = schema.oneOf ?? schema.anyOf
  if (members === undefined) return schema
  const values = members.filter(({ type }) => type !== 'null')
  if (values.length > 1 && values.some((member) => isAnyObject(member, all))) {
    const types = members.map((member) => member.type ?? all[idOf(member) ?? '']?.type)
    return described(schema, `One of these: ${types.join(', ')}.`)
  }
  const discriminator = discriminatorOf(members, all)
  return discriminator === null ? schema : { ...schema, ...discriminator }
}

/** Replaces a schema by one for any value, with a description of the types. */
function described({ description }: Schema, note: string): Schema {
  return { description: description === undefined ? note : `${description} ${note}` }
}

/** Whether it is an object with any fields. No client has a type for that in a union with other types. */
function isAnyObject(schema: Schema, all: Schemas): boolean {
  const { type, properties, additionalProperties } = all[idOf(schema) ?? ''] ?? schema
  return type === 'object' && properties === undefined && additionalProperties !== undefined
}

/**
 * Finds the field by which the members of a union differ, and the member for each of its values. With it, generated clients
 * read a reply as the right member instead of the first similar one.
 */
function discriminatorOf(members: readonly Schema[], all: Schemas): { readonly discriminator: object } | null {
  const ids = members.map(idOf)
  for (const propertyName of ['type', 'role']) {
    const entries = ids.flatMap((id) => {
      return id === null ? [] : valuesOf(all[id]!, propertyName).map((value) => [value, id] as const)
    })
    const covered = new Set(entries.map(([, id]) => id))
    if (covered.size < ids.length || new Map(entries).size < entries.length) continue
    const mapping = Object.fromEntries(entries.map(([value, id]) => [value, `${REFERENCE}${id}`]))
    return { discriminator: { propertyName, mapping } }
  }
  return null
}

/** Returns the values that a required field may have; none if it may have any. */
function valuesOf({ properties, required }: Schema, name: string): readonly string[] {
  const field = required?.includes(name) ? properties?.[name] : undefined
  return field?.enum ?? (field?.const === undefined ? [] : [field.const])
}
