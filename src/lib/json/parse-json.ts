/** @param other returned for a text that is not JSON. */
export function parseJsonOr<Other>(text: string, other: Other): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return other
  }
}

/**
 * Parses a value that will be written as JSON again: integers that a double would round keep their digits.
 * @param other returned for a text that is not JSON.
 */
export function parseToWrite<Other>(text: string, other: Other): unknown {
  try {
    // Numbers with fewer digits are exact. With a reviver, depth is limited by the stack.
    return /\d{16}/.test(text) ? JSON.parse(text, withDigits) : JSON.parse(text)
  } catch {
    return other
  }
}

/** TypeScript does not know these JavaScript features yet. */
const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown }

function withDigits(_: string, value: unknown, context?: { readonly source?: string }): unknown {
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? rawJSON(context!.source!) : value
}

export type JsonObject = Readonly<Record<string, unknown>>

/** Whether a JSON value is an object, not a list. */
export function isRecord(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The object in a JSON text; null for any other value. */
export function parseRecord(text: string): JsonObject | null {
  const value = parseJsonOr(text, null)
  return isRecord(value) ? value : null
}
