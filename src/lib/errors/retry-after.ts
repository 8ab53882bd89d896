/**
 * Seconds that the header `Retry-After` asks to wait: a number, or what is left until a date.
 * @returns null for a header that is missing or says neither.
 */
export function secondsOf(retryAfter: string | null | undefined): number | null {
  const text = retryAfter?.trim() ?? ''
  const seconds = /^\d+(\.\d+)?$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000
  return Number.isFinite(seconds) ? Math.max(0, seconds) : null
}
