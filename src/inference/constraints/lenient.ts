import { looseSchema } from './loose-schema.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'

/** Keywords that are left out, one after the other, before a schema is given up. */
const MOST_OMISSIONS = 50

/** What is left when nothing of a schema can be kept. */
const ANY_OBJECT = { type: 'object' }

/**
 * Does something with a schema; where that refuses a keyword, again without it. A schema of which nothing can be kept
 * stands for any object.
 */
export function leniently<Result>(schema: unknown, use: (schema: unknown) => Result): Result {
  let current = looseSchema(schema)
  for (let omitted = 0; omitted < MOST_OMISSIONS; omitted++) {
    try {
      return use(current)
    } catch (error) {
      if (!(error instanceof UnsupportedConstraint)) throw error
      const rest = without(current, error.path)
      if (rest === null) break
      current = rest
    }
  }
  return use(ANY_OBJECT)
}

/** A copy of the value without the keyword on the path, or without that alternative; null where there is none. */
function without(value: unknown, path: UnsupportedConstraint['path']): unknown {
  if (typeof value !== 'object' || value === null) return null
  const [key, ...rest] = path
  if (key === undefined || !Object.hasOwn(value, key)) return null
  const inner = (value as Record<string | number, unknown>)[key]
  const changed = without(inner, rest)
  if (Array.isArray(value)) return changed === null ? null : value.with(Number(key), changed)
  const isAlternative = key === 'anyOf' && rest.length === 1 && Array.isArray(inner) && inner.length > 1
  if (isAlternative) return { ...value, anyOf: inner.toSpliced(Number(rest[0]), 1) }
  const entries = Object.entries(value).filter(([name]) => changed !== null || name !== String(key))
  return Object.fromEntries(entries.map(([name, held]) => [name, name === String(key) ? changed : held]))
}
