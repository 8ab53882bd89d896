/** `1:05.3` for 65.3 seconds. */
export function timeText(seconds: number): string {
  const tenths = Math.floor(Math.max(0, seconds) * 10 + 1e-6)
  const [minutes, rest] = [Math.floor(tenths / 600), tenths % 600]
  return `${minutes}:${String(Math.floor(rest / 10)).padStart(2, '0')}.${rest % 10}`
}

/** In words, for those who listen. */
export function spanText(start: number, end: number | null): string {
  const seconds = (value: number) => `${Number(value.toFixed(1))}`
  return end === null ? `at ${seconds(start)} seconds` : `from ${seconds(start)} to ${seconds(end)} seconds`
}
