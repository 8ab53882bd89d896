import type { CodePoints } from './code-points.ts'
import { expansionOf } from './parser.ts'
import { type AnchoredPattern, EMPTY, inOrder, isEmpty, joined, lengthsOf, type Pattern } from './pattern.ts'

/** Texts of the given lengths whose characters are all in a set. */
export interface TextLengths {
  readonly anything: CodePoints
  readonly min: number
  /** Null for no end. */
  readonly max: number | null
}

/** If the length is bounded, a match begins within this many characters; a large pattern allows fewer. */
const MOST_BEGINNINGS = 24
const LARGEST_COPIES = 4_000

/**
 * A pattern for the whole texts of the given lengths in which `found` matches. If the lengths of matches differ, some
 * texts may be missing, because the longest match must fit.
 * @returns the keyword of the bound that cannot be enforced, in place of a pattern.
 */
export function searching(found: AnchoredPattern, texts: TextLengths): Pattern | 'minLength' | 'maxLength' {
  const { start, end } = found
  const match = trimmed(found)
  const lengths = lengthsOf(match)
  const { anything, min, max } = texts
  const any = (least: number, most: number | null): Pattern => ({
    type: 'repeat',
    part: { type: 'character', set: anything },
    min: least,
    max: most,
  })
  if (start && end) {
    const fitted = withCounts(match, texts)
    if (fitted !== null) return fitted
    if (lengths.min < min) return 'minLength'
    return lengths.max > (max ?? Number.POSITIVE_INFINITY) ? 'maxLength' : match
  }
  // The empty text is found anywhere.
  if (lengths.min === 0) return any(min, max)
  const least = Math.max(0, min - lengths.min)
  const most = max === null ? null : max - lengths.max
  if (most !== null && most < 0) return 'maxLength'
  if (most !== null && least > most) return 'minLength'
  if (start) return inOrder([match, any(least, most)])
  if (end) return inOrder([any(least, most), match])
  return findAnywhere(match, (before) => any(Math.max(0, least - before), most === null ? null : most - before), {
    any,
    last: most ?? least,
    isEndless: most === null,
  })
}

/**
 * The matches of these lengths, for a pattern whose length varies only by one repetition of a part of fixed length.
 * @returns null for other patterns, and if no match has such a length.
 */
function withCounts(match: Pattern, { min, max }: TextLengths): Pattern | null {
  const parts = match.type === 'sequence' ? match.parts : [match]
  const lengths = parts.map(lengthsOf)
  const at = lengths.findIndex((length) => length.min !== length.max)
  const repeat = parts[at]
  if (repeat?.type !== 'repeat') return null
  const round = lengthsOf(repeat.part)
  const others = lengths.toSpliced(at, 1)
  if (round.min !== round.max || others.some((length) => length.min !== length.max)) return null
  const fixed = others.reduce((sum, length) => sum + length.min, 0)
  const least = Math.max(repeat.min, Math.ceil((min - fixed) / round.min))
  const most = Math.min(
    repeat.max ?? Number.POSITIVE_INFINITY,
    max === null ? Number.POSITIVE_INFINITY : Math.floor((max - fixed) / round.min),
  )
  if (least > most) return null
  return inOrder(parts.with(at, { ...repeat, min: least, max: most === Number.POSITIVE_INFINITY ? null : most }))
}

interface Beginnings {
  readonly any: (least: number, most: number | null) => Pattern
  /** Maximum number of characters before a match that makes a difference to what may follow it. */
  readonly last: number
  /** Whether more characters than that may precede a match. */
  readonly isEndless: boolean
}

/** @param behind what may follow a match, by the number of characters before it. */
function findAnywhere(
  match: Pattern,
  behind: (before: number) => Pattern,
  { any, last, isEndless }: Beginnings,
): Pattern {
  const copies = Math.min(last, MOST_BEGINNINGS, Math.floor(LARGEST_COPIES / expansionOf(match)))
  const found = inOrder([match, behind(copies)])
  let pattern = isEndless ? inOrder([any(0, null), found]) : found
  for (let before = copies - 1; before >= 0; before--) {
    pattern = joined([inOrder([match, behind(before)]), inOrder([any(1, 1), pattern])])
  }
  return pattern
}

/** A repetition next to arbitrary text can be cut to its minimum: the search accepts the rest as arbitrary text. */
function trimmed({ start, end, pattern }: AnchoredPattern): Pattern {
  const begun = start ? pattern : withoutRest(pattern, 0)
  return end ? begun : withoutRest(begun, -1)
}

/** @param edge index of the first or last part. */
function withoutRest(pattern: Pattern, edge: 0 | -1): Pattern {
  switch (pattern.type) {
    case 'character':
      return pattern
    case 'choice':
      return joined(pattern.options.map((option) => withoutRest(option, edge)))
    case 'repeat':
      if (pattern.min === 0) return EMPTY
      return pattern.min === 1 ? withoutRest(pattern.part, edge) : { ...pattern, max: pattern.min }
    case 'sequence': {
      const parts = [...pattern.parts]
      for (let part = parts.at(edge); part !== undefined; part = parts.at(edge)) {
        const cut = withoutRest(part, edge)
        parts.splice(edge, 1, ...(isEmpty(cut) ? [] : [cut]))
        if (!isEmpty(cut)) break
      }
      return inOrder(parts)
    }
  }
}
