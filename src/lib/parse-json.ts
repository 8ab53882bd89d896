/** @param other is returned for a text that is not JSON. */
export function parseJsonOr<Other>(text: string, other: Other): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return other
  }
}
