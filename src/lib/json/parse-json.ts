/** @param other is returned for a text that is not JSON. */
export function parseJsonOr<Other>(text: string, other: Other): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return other
  }
}

export type JsonObject = Readonly<Record<string, unknown>>

/** Whether a value of JSON is an object, and no list. */
export function isRecord(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The object that a text of JSON is; null for anything else. */
export function parseRecord(text: string): JsonObject | null {
  const value = parseJsonOr(text, null)
  return isRecord(value) ? value : null
}
