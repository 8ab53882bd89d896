/** The text of a token that says when it was due. All processes of a machine share the clock. */

/** A stamp counts tenths of milliseconds in base 36, and repeats after more than an hour. */
const PER_MS = 10
const DIGITS = 5
const RANGE = 36 ** DIGITS
/** What every such text begins with: nothing else in an event of a stream has it. */
const MARK = ' ~'

/** A text as long as a stamp. */
export const STAMP_TEXT = `${MARK}${'0'.repeat(DIGITS)}`

/** @param at by `performance.now()` of this process. */
export function stamp(at: number): string {
  return MARK + (Math.round((performance.timeOrigin + at) * PER_MS) % RANGE).toString(36).padStart(DIGITS, '0')
}

/** Counts the stamps in a piece of a stream, and reads the first one. A stamp that is cut in two is not seen. */
export function readStamps(piece: string): { readonly count: number; readonly lateMs: number | null } {
  let count = 0
  let lateMs: number | null = null
  for (let at = piece.indexOf(MARK); at >= 0; at = piece.indexOf(MARK, at + STAMP_TEXT.length)) {
    count++
    const digits = piece.slice(at + MARK.length, at + STAMP_TEXT.length)
    if (lateMs === null && digits.length === DIGITS) lateMs = since(Number.parseInt(digits, 36))
  }
  return { count, lateMs }
}

function since(due: number): number {
  const now = Math.round((performance.timeOrigin + performance.now()) * PER_MS) % RANGE
  return ((now - due + RANGE) % RANGE) / PER_MS
}
