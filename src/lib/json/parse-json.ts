/** @param other is returned for a text that is not JSON. */
export function parseJsonOr<Other>(text: string, other: Other): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return other
  }
}

/**
 * A value that is written as JSON again: integers that a double rounds keep their digits then.
 * @param other is returned for a text that is not JSON.
 */
export function parseToWrite<Other>(text: string, other: Other): unknown {
  try {
    // Fewer digits are safe. With a function, depth is limited by the stack.
    return /\d{16}/.test(text) ? JSON.parse(text, withDigits) : JSON.parse(text)
  } catch {
    return other
  }
}

/** TypeScript does not know these parts of JavaScript yet. */
const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown }

function withDigits(_: string, value: unknown, context?: { readonly source?: string }): unknown {
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? rawJSON(context!.source!) : value
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
