import type { Range } from './regex/code-points.ts'

export type ByteRange = readonly [first: number, last: number]

/** Last code points that UTF-8 encodes in one, two, three and four bytes. */
const LAST_BY_LENGTH = [0x7f, 0x7ff, 0xffff, 0x10ffff]
const CONTINUATION_BITS = 6

/** A range of characters as sequences of byte ranges, which match exactly the UTF-8 encodings of its characters. */
export function byteSequences([first, last]: Range): ByteRange[][] {
  for (const limit of LAST_BY_LENGTH) {
    if (first <= limit && limit < last) return [...byteSequences([first, limit]), ...byteSequences([limit + 1, last])]
  }
  const start = Buffer.from(String.fromCodePoint(first))
  for (let i = 1; i < start.length; i++) {
    const tail = (1 << (CONTINUATION_BITS * i)) - 1
    if ((first & ~tail) === (last & ~tail)) continue
    // Byte ranges can be combined only if every later byte takes all of its values.
    if ((first & tail) !== 0) {
      return [...byteSequences([first, first | tail]), ...byteSequences([(first | tail) + 1, last])]
    }
    if ((last & tail) !== tail) {
      return [...byteSequences([first, (last & ~tail) - 1]), ...byteSequences([last & ~tail, last])]
    }
  }
  const end = Buffer.from(String.fromCodePoint(last))
  return [Array.from(start, (byte, i): ByteRange => [byte, end[i]!])]
}

const TAIL = '[\\x80-\\xbf]'
/** Multi-byte characters by their first byte, each with the allowed second bytes and the number of bytes after them. */
const FORMS = [
  { first: '[\\xc2-\\xdf]', second: TAIL, more: 0 },
  { first: '\\xe0', second: '[\\xa0-\\xbf]', more: 1 },
  { first: '[\\xe1-\\xec\\xee\\xef]', second: TAIL, more: 1 },
  { first: '\\xed', second: '[\\x80-\\x9f]', more: 1 },
  { first: '\\xf0', second: '[\\x90-\\xbf]', more: 2 },
  { first: '[\\xf1-\\xf3]', second: TAIL, more: 2 },
  { first: '\\xf4', second: '[\\x80-\\x8f]', more: 2 },
]
const WHOLE = FORMS.map(({ first, second, more }) => `${first}${second}${TAIL}{${more}}`).join('|')
const BEGUN = FORMS.map(({ first, second, more }) => `${first}(?:${second}${TAIL}{0,${more}})?`).join('|')
const PART = new RegExp(`^${TAIL}{0,3}(?:[\\x00-\\x7f]|${WHOLE})*(?:${BEGUN})?$`)

/**
 * Whether bytes, one per character of the string, can be a part of a UTF-8 text; it may begin and end inside a
 * character.
 */
export function isPartOfUtf8(bytes: string): boolean {
  return PART.test(bytes)
}
