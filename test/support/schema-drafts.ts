/** Ajv as a judge of documents, by the draft of their schema, with formats asserted. It shares no code with the server. */
import { Ajv, type ValidateFunction } from 'ajv'
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
  const draft = draftOf(schema)
  const written = withoutIds(draft === 4 ? fromDraft4(schema) : schema) as object | boolean
  const Judge = draft === 2020 ? Ajv2020 : draft === 2019 ? Ajv2019 : Ajv
  const compile = (unicodeRegExp: boolean): ValidateFunction => {
    const options = { strict: false, validateSchema: false, ownProperties: true, logger: false, unicodeRegExp } as const
    const ajv = new Judge(options)
    addFormats.default(ajv)
    return ajv.compile(written)
  }
  try {
    return compile(true)
  } catch {
    // Patterns with needless escapes are errors in Unicode mode only.
    return compile(false)
  }
}

/** Of a schema that does not say so, the latest draft where it uses its keywords. */
function draftOf(schema: unknown): 4 | 7 | 2019 | 2020 {
  const { $schema: named } = (schema ?? {}) as Schema
  if (typeof named === 'string') {
    if (named.includes('draft-04') || named.includes('draft-03')) return 4
    if (named.includes('2019-09')) return 2019
    if (named.includes('2020-12')) return 2020
    if (named.includes('draft-0')) return 7
  }
  return RECENT.test(JSON.stringify(schema))
    ? 2020
    : /"exclusiveM\w+":(true|false)/.test(JSON.stringify(schema))
      ? 4
      : 7
}

/** Without names for schemas by URL, and without a dialect: they stand alone. A reference to such a name finds nothing. */
function withoutIds(schema: unknown): unknown {
  return rewritten(schema, ({ $id: _, id, $schema: __, ...rest }) =>
    typeof id === 'string' ? rest : { ...rest, ...(id === undefined ? {} : { id }) },
  )
}

/** With exclusive bounds as later drafts have them. */
function fromDraft4(schema: unknown): unknown {
  return rewritten(schema, (schema) => {
    const changed: Record<string, unknown> = { ...schema }
    for (const [bound, exclusive] of [
      ['minimum', 'exclusiveMinimum'],
      ['maximum', 'exclusiveMaximum'],
    ] as const) {
      if (typeof schema[exclusive] !== 'boolean') continue
      delete changed[exclusive]
      if (schema[exclusive] !== true || typeof schema[bound] !== 'number') continue
      changed[exclusive] = schema[bound]
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
