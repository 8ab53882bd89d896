/** Sets of characters: inclusive ranges of code points, ascending and not adjacent. */
export type CodePoints = readonly Range[]
export type Range = readonly [first: number, last: number]

const LAST = 0x10ffff
/** Halves of UTF-16 pairs are not characters: no UTF-8 text contains them. */
const SURROGATES: Range = [0xd800, 0xdfff]

export const ALL: CodePoints = [
  [0, SURROGATES[0] - 1],
  [SURROGATES[1] + 1, LAST],
]

export function union(...sets: readonly CodePoints[]): CodePoints {
  const joined: [number, number][] = []
  for (const [first, last] of sets.flat().sort((a, b) => a[0] - b[0])) {
    const previous = joined.at(-1)
    if (previous && first <= previous[1] + 1) previous[1] = Math.max(previous[1], last)
    else joined.push([first, last])
  }
  return joined
}

export function intersection(a: CodePoints, b: CodePoints): CodePoints {
  return a.flatMap(([first, last]) =>
    b
      .map(([start, end]): Range => [Math.max(first, start), Math.min(last, end)])
      .filter(([start, end]) => start <= end),
  )
}

/** All characters that are not in `set`. */
export function complement(set: CodePoints): CodePoints {
  const gaps: Range[] = []
  let next = 0
  for (const [first, last] of union(set)) {
    if (first > next) gaps.push([next, first - 1])
    next = last + 1
  }
  if (next <= LAST) gaps.push([next, LAST])
  return intersection(gaps, ALL)
}

export function difference(a: CodePoints, b: CodePoints): CodePoints {
  return intersection(a, complement(b))
}

export function setOf(characters: string): CodePoints {
  return union([...characters].map((character): Range => [character.codePointAt(0)!, character.codePointAt(0)!]))
}
