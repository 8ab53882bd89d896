import { booleanOf } from '../../config/boolean-text.ts'
import { invalidRequest, say } from '../../lib/errors/errors.ts'

/**
 * Reads a boolean from a query, false by default.
 * @throws ApiError 400 for other values, and for repeated parameters.
 */
export function queryBoolean(query: unknown, name: string): boolean {
  const given = (query as Record<string, unknown>)[name]
  if (given === undefined) return false
  const value = typeof given === 'string' ? booleanOf(given) : null
  if (value !== null) return value
  throw invalidRequest(say`Invalid '${[name]}': expected true or false (also 1 or 0, yes or no, on or off)`, name)
}

/**
 * Reads an integer from a query or a header; null if absent.
 * @throws ApiError 400
 */
export function queryNumber(
  given: unknown,
  name: string,
  { min, max }: { readonly min: number; readonly max: number },
): number | null {
  const text = (given as Record<string, unknown>)[name]
  if (text === undefined) return null
  const value = typeof text === 'string' && /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (value >= min && value <= max) return value
  const expected = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `between ${min} and ${max}`
  throw invalidRequest(say`Invalid '${[name]}': expected an integer ${expected}`, name)
}
