import { FORMATS } from './formats.ts'
import { lookUp } from './json-pointer.ts'
import { isObject } from './schema-conjunction.ts'

/** The value of a keyword: a schema, a list of schemas, a map of schemas by name, or one of two of these. */
type Holds = 'schema' | 'list' | 'named' | 'schema or list' | 'schemas or names'

interface Keyword {
  /**
   * `annotation`: plain text about the schema, which is not meant to be enforced. `none`: a keyword that JSON Schema
   * itself does not enforce.
   */
  readonly effect: 'enforced' | 'annotation' | 'none'
  readonly holds?: Holds
}

const enforced = (names: readonly string[], holds?: Holds) =>
  names.map((name): [string, Keyword] => [name, { effect: 'enforced', ...(holds && { holds }) }])
const without = (effect: 'annotation' | 'none', names: readonly string[]) =>
  names.map((name): [string, Keyword] => [name, { effect }])

/** The keywords of drafts 4 to 2020-12. Every other keyword is unknown and has no effect. */
export const KEYWORDS: ReadonlyMap<string, Keyword> = new Map([
  ...enforced(['type', 'enum', 'const', '$ref', '$anchor', '$dynamicRef', '$recursiveRef', '$dynamicAnchor']),
  ...enforced(['$recursiveAnchor', 'nullable']),
  ...enforced(['required', 'dependentRequired', 'minProperties', 'maxProperties']),
  ...enforced(['minItems', 'maxItems', 'uniqueItems', 'minContains', 'maxContains']),
  ...enforced(['minLength', 'maxLength', 'pattern', 'format']),
  ...enforced(['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf']),
  ...enforced(['not', 'if', 'then', 'else'], 'schema'),
  ...enforced(['additionalProperties', 'propertyNames', 'unevaluatedProperties'], 'schema'),
  ...enforced(['additionalItems', 'contains', 'unevaluatedItems'], 'schema'),
  ...enforced(['allOf', 'anyOf', 'oneOf', 'prefixItems'], 'list'),
  ...enforced(['$defs', 'definitions', 'properties', 'patternProperties', 'dependentSchemas'], 'named'),
  ...enforced(['items'], 'schema or list'),
  ...enforced(['dependencies'], 'schemas or names'),
  ...without('annotation', ['title', 'description', 'default', 'example', 'examples', 'deprecated']),
  ...without('annotation', ['readOnly', 'writeOnly', '$schema', '$comment', '$id', 'id']),
  ...without('none', ['contentEncoding', 'contentMediaType', 'contentSchema', '$vocabulary', 'discriminator']),
])

/** Maximum number of keywords and schemas to read. The largest enforceable schema has fewer. */
const MOST_READ = 70_000

/**
 * The names of the keywords in a schema that have no effect, without duplicates and in the order of the schema, except
 * for plain annotations such as `title`. A format that is not enforced is listed with its value: `format: semver`. Only
 * the beginning of a schema that is too large to be enforced is read.
 */
export function ignoredKeywords(schema: unknown): readonly string[] {
  const ignored = new Set<string>()
  const seen = new Set<unknown>()
  /** Places for definitions under other keywords, such as OpenAPI's `components`. */
  const referred = new Set<string>()
  const open: unknown[] = [schema]
  let left = MOST_READ
  while (open.length > 0 && left > 0) {
    const current = open.pop()
    if (!isObject(current) || seen.has(current)) continue
    seen.add(current)
    const inner: unknown[] = []
    // Unlike `Object.entries`, this does not list all of them first.
    for (const name in current) {
      if (--left < 0) break
      const value = current[name]
      const { effect, holds } = KEYWORDS.get(name) ?? { effect: 'none' }
      if (effect === 'none') ignored.add(name)
      if (name === 'format' && typeof value === 'string' && !Object.hasOwn(FORMATS, value)) {
        ignored.add(`format: ${value}`)
      }
      if (name === '$ref' && typeof value === 'string' && value.startsWith('#/')) {
        referred.add(value.split('/', 2)[1]!)
        inner.push(lookUp(schema, value)?.target)
      }
      // Not spread: a client's list may exceed the maximum number of arguments of a call.
      for (const [, schema] of schemasIn(value, holds)) {
        inner.push(schema)
        if (inner.length >= left) break
      }
    }
    for (const schema of inner.toReversed()) open.push(schema)
  }
  return [...ignored].filter((name) => !referred.has(name) || !isObject(schema) || !Object.hasOwn(schema, name))
}

/** The schemas within a keyword's value, each with its path there. */
export function* schemasIn(
  value: unknown,
  holds: Holds | undefined,
): Generator<readonly [path: readonly (string | number)[], schema: unknown]> {
  if (holds === undefined || typeof value !== 'object' || value === null) return
  const isList = Array.isArray(value)
  if (isList ? holds !== 'list' && holds !== 'schema or list' : holds === 'list') return
  if (!isList && (holds === 'schema' || holds === 'schema or list')) {
    yield [[], value]
    return
  }
  if (isList) for (const [at, schema] of value.entries()) yield [[at], schema]
  else for (const name in value) yield [[name], (value as Readonly<Record<string, unknown>>)[name]]
}
