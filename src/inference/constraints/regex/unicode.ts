import { type CodePoints, type Range, setOf, union } from './code-points.ts'

const LAST = 0x10ffff
/** Sets with more characters are taken to have both cases of each letter. */
const MOST_CASED = 20_000

const properties = new Map<string, CodePoints | null>()

/**
 * The characters with a property of Unicode, such as `L`, `Letter` or `Script=Latin`, as JavaScript's engine knows it.
 * @returns null for a property that it does not know.
 */
export function charactersWith(property: string): CodePoints | null {
  let set = properties.get(property)
  if (set === undefined) {
    set = find(property)
    properties.set(property, set)
  }
  return set
}

function find(property: string): CodePoints | null {
  let expression: RegExp
  try {
    expression = new RegExp(`\\p{${property}}`, 'u')
  } catch {
    return null
  }
  const ranges: [number, number][] = []
  for (let code = 0; code <= LAST; code++) {
    if (code === 0xd800) code = 0xe000
    if (!expression.test(String.fromCodePoint(code))) continue
    const previous = ranges.at(-1)
    if (previous?.[1] === code - 1) previous[1] = code
    else ranges.push([code, code])
  }
  return ranges
}

/** A set with the upper and lower cases of its letters. */
export function inBothCases(set: CodePoints): CodePoints {
  const size = set.reduce((sum, [first, last]) => sum + last - first + 1, 0)
  if (size > MOST_CASED) return set
  const others = set.flatMap(([first, last]: Range) =>
    Array.from({ length: last - first + 1 }, (_, index) => {
      const character = String.fromCodePoint(first + index)
      return setOf([character.toLowerCase(), character.toUpperCase()].filter(isOne).join(''))
    }).flat(),
  )
  return union(set, others)
}

function isOne(text: string): boolean {
  return [...text].length === 1
}
