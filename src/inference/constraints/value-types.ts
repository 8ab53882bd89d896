import { isPointer, lookUp } from './references.ts'

type Schema = Readonly<Record<string, unknown>>
/** Names of types, as in schemas. Null for any type. */
export type ValueTypes = readonly string[] | null

/** Schemas that are looked at for one answer: references can multiply. */
const MOST_SCHEMAS = 200

/**
 * Tells for the name of a member which types its values may have, in the objects that a schema describes. It goes by types,
 * constants and references, and by alternatives of such.
 */
export function memberTypes(root: unknown): (name: string) => ValueTypes {
  const known = new Map<string, ValueTypes>()
  return (name) => {
    let types = known.get(name)
    if (types === undefined) {
      types = new Search(root).ofMember(name)
      known.set(name, types)
    }
    return types
  }
}

class Search {
  readonly #root: unknown
  #left = MOST_SCHEMAS

  constructor(root: unknown) {
    this.#root = root
  }

  ofMember(name: string): ValueTypes {
    const members = this.#alternatives(this.#root)?.flatMap((schema) => {
      const { properties, additionalProperties = true } = schema
      if (isSchema(properties) && Object.hasOwn(properties, name)) return [properties[name]]
      return additionalProperties === false ? [] : [additionalProperties]
    })
    if (members === undefined || members.length === 0) return null
    return joined(members.map((schema) => this.#typesOf(schema)))
  }

  #typesOf(schema: unknown): ValueTypes {
    const schemas = this.#alternatives(schema)
    return schemas === null ? null : joined(schemas.map(ownTypes))
  }

  /** The schemas that a value may follow; null when they cannot be told. */
  #alternatives(schema: unknown): readonly Schema[] | null {
    if (!isSchema(schema) || --this.#left < 0) return null
    const { $ref, anyOf, oneOf, allOf } = schema
    if (typeof $ref === 'string') {
      const found = isPointer($ref) ? lookUp(this.#root, $ref) : null
      return found === null ? null : this.#alternatives(found.target)
    }
    const inner = anyOf ?? oneOf ?? (Array.isArray(allOf) && allOf.length === 1 ? allOf : undefined)
    if (!Array.isArray(inner)) return [schema]
    const found = inner.map((option) => this.#alternatives(option))
    return found.includes(null) ? null : (found as (readonly Schema[])[]).flat()
  }
}

function ownTypes(schema: Schema): ValueTypes {
  const { type, enum: values } = schema
  if (typeof type === 'string') return [type]
  if (Array.isArray(type)) return type.filter((name) => typeof name === 'string')
  if (Object.hasOwn(schema, 'const')) return [typeOf(schema.const)]
  return Array.isArray(values) ? [...new Set(values.map(typeOf))] : null
}

function joined(all: readonly ValueTypes[]): ValueTypes {
  return all.includes(null) ? null : [...new Set((all as (readonly string[])[]).flat())]
}

function typeOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

function isSchema(value: unknown): value is Schema {
  return typeOf(value) === 'object'
}
