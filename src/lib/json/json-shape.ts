import { MOST_JSON_LEVELS } from './json-depth.ts'

/** Maximum levels of nesting: those of a client's own JSON, plus those of the contract's objects around it. */
export const MOST_LEVELS = MOST_JSON_LEVELS + 8
/** Maximum values in one body: far more than any context window holds, few enough to parse and copy in milliseconds. */
export const MOST_VALUES = 250_000

/** Most strings are short keys or media: up to this length they are scanned byte by byte, beyond it with `indexOf`. */
const SHORT_STRING = 24
export const QUOTE = 0x22
const BACKSLASH = 0x5c

export interface ShapeFault {
  /** Whether it has too many levels; otherwise it has too many values. */
  readonly isDeep: boolean
  /** The byte at which the limit is exceeded. */
  readonly at: number
}

/**
 * Finds where JSON is too deep or has too many values to be parsed. Reads each byte about once and does not recurse.
 * Text that is not JSON passes: the parser reports its errors.
 */
export function shapeFault(bytes: Buffer, mostLevels: number = MOST_LEVELS): ShapeFault | null {
  let levels = 0
  let values = 0
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]) {
      case QUOTE:
        at = endOfString(bytes, at)
        break
      case 0x5b: // [
      case 0x7b: // {
        if (++levels > mostLevels) return { isDeep: true, at }
        if (++values > MOST_VALUES) return { isDeep: false, at }
        break
      case 0x5d: // ]
      case 0x7d: // }
        levels--
        break
      case 0x2c: // ,
        if (++values > MOST_VALUES) return { isDeep: false, at }
        break
    }
  }
  return null
}

/** @returns the index of the closing quote, or the length of the text when there is none. */
export function endOfString(bytes: Buffer, start: number): number {
  const near = Math.min(bytes.length, start + SHORT_STRING)
  let at = start + 1
  for (; at < near; at++) {
    if (bytes[at] === BACKSLASH) at++
    else if (bytes[at] === QUOTE) return at
  }
  for (;;) {
    const quote = bytes.indexOf(QUOTE, at)
    if (quote === -1) return bytes.length
    let before = quote
    while (before > at && bytes[before - 1] === BACKSLASH) before--
    if ((quote - before) % 2 === 0) return quote
    at = quote + 1
  }
}
