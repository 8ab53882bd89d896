/** Ajv as a judge of documents, by the draft of their schema, with formats asserted. It shares no code with the server. */
import { Ajv } from 'ajv'
import { Ajv2019 } from 'ajv/dist/2019.js'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'

type Schema = Readonly<Record<string, unknown>>

/** Keywords whose members are schemas by name. */
const NAMED = new Set(['properties', 'patternProperties', 'definitions', '$defs', 'dependentSchemas', 'dependencies'])
/** Keywords that hold values and no schemas. */
const VALUES = new Set(['enum', 'const', 'default', 'examples', 'example', 'required'])
const RECENT = /"(\$defs|prefixItems|dependentRequired|dependentSchemas|unevaluated\w+|minContains|\$dynamicRef)":/

/** @throws Error where Ajv cannot compile the schema. */
export function judgeOf(schema: unknown): (value: unknown) => boolean {
  const Judge = { 7: Ajv, 2019: Ajv2019, 2020: Ajv2020 }[draftOf(schema)]
  const written = inNewerForms(schema)
  let problem: unknown
  // Identifiers may be no addresses. Patterns with needless escapes are errors in Unicode mode only.
  for (const form of [written, withoutIds(written)]) {
    for (const unicodeRegExp of [true, false]) {
      const options = {
        strict: false,
        validateSchema: false,
        ownProperties: true,
        logger: false,
        unicodeRegExp,
      } as const
      const ajv = new Judge(options)
      addFormats.default(ajv)
      try {
        return ajv.compile(form as object | boolean)
      } catch (error) {
        problem = error
      }
    }
  }
  throw problem
}

/** The latest draft of a schema that does not say so and uses its keywords. */
function draftOf(schema: unknown): 7 | 2019 | 2020 {
  const { $schema: named } = (schema ?? {}) as Schema
  if (typeof named === 'string') {
    if (named.includes('2019-09')) return 2019
    if (named.includes('2020-12')) return 2020
    if (named.includes('draft-0')) return 7
  }
  return RECENT.test(JSON.stringify(schema)) ? 2020 : 7
}

/** Without names for schemas: they stand alone. */
function withoutIds(schema: unknown): unknown {
  return rewritten(schema, ({ $id: _, ...rest }) => rest)
}

/** What draft 4 and OpenAPI write, as later drafts do, and without a dialect. `nullable` has no effect without a type. */
function inNewerForms(schema: unknown): unknown {
  return rewritten(schema, ({ $schema: _, id, nullable, ...rest }) => {
    const changed: Record<string, unknown> = { ...rest }
    if (id !== undefined && typeof id !== 'string') changed.id = id
    if (nullable === true && rest.type !== undefined) changed.nullable = true
    for (const [bound, exclusive] of [
      ['minimum', 'exclusiveMinimum'],
      ['maximum', 'exclusiveMaximum'],
    ] as const) {
      if (typeof rest[exclusive] !== 'boolean') continue
      delete changed[exclusive]
      if (rest[exclusive] !== true || typeof rest[bound] !== 'number') continue
      changed[exclusive] = rest[bound]
      delete changed[bound]
    }
    return changed
  })
}

function rewritten(schema: unknown, change: (schema: Schema) => Schema): unknown {
  if (Array.isArray(schema)) return schema.map((inner) => rewritten(inner, change))
  if (typeof schema !== 'object' || schema === null) return schema
  const inner = Object.entries(change(schema as Schema)).map(([key, value]) => {
    if (VALUES.has(key)) return [key, value] as const
    if (!NAMED.has(key) || typeof value !== 'object' || value === null || Array.isArray(value)) {
      return [key, rewritten(value, change)] as const
    }
    return [key, fromEntries(Object.entries(value).map(([name, held]) => [name, rewritten(held, change)]))] as const
  })
  return fromEntries(inner)
}

/** Also with a key `__proto__`. */
function fromEntries(entries: readonly (readonly [string, unknown])[]): Record<string, unknown> {
  return Object.fromEntries(entries)
}
