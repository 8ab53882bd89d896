/**
 * Seconds to wait according to a `Retry-After` header, which has a number or a date.
 * @returns null for a missing or invalid header.
 */
export function secondsOf(retryAfter: string | null | undefined): number | null {
  const text = retryAfter?.trim() ?? ''
  const seconds = /^\d+(\.\d+)?$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null
}
