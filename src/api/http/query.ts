import { booleanOf } from '../../config/boolean-text.ts'
import { invalidRequest, say } from '../../lib/errors.ts'

/** Reads a boolean of a query, false by default. @throws ApiError 400 for other values, and for several. */
export function queryBoolean(query: unknown, name: string): boolean {
  const given = (query as Record<string, unknown>)[name]
  if (given === undefined) return false
  const value = typeof given === 'string' ? booleanOf(given) : null
  if (value !== null) return value
  throw invalidRequest(say`Invalid '${[name]}': expected true or false (also 1 or 0, yes or no, on or off)`, name)
}
