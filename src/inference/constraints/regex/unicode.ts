import { getOrMake } from '../../../lib/get-or-make.ts'
import { type CodePoints, intersection, type Range, setOf, union } from './code-points.ts'

const LAST = 0x10ffff
/** Larger sets are assumed to contain both cases of each letter. */
const MOST_CASED = 20_000

const properties = new Map<string, CodePoints | null>()

/**
 * The characters with a Unicode property, such as `L`, `Letter` or `Script=Latin`, according to JavaScript's engine.
 * @returns null for an unknown property.
 */
export function charactersWith(property: string): CodePoints | null {
  return getOrMake(properties, property, () => find(property))
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

/** A set with the other case of each letter, if the two map to each other. */
export function withOtherCases(set: CodePoints): CodePoints {
  const size = set.reduce((sum, [first, last]) => sum + last - first + 1, 0)
  if (size > MOST_CASED) return set
  const others = set.flatMap(([first, last]: Range) =>
    Array.from({ length: last - first + 1 }, (_, index) => {
      const character = String.fromCodePoint(first + index)
      const [lower, upper] = [character.toLowerCase(), character.toUpperCase()]
      const own = [lower.toUpperCase() === character ? lower : '', upper.toLowerCase() === character ? upper : '']
      return setOf(own.filter(isOne).join(''))
    }).flat(),
  )
  return union(set, others)
}

let letters: ReadonlyMap<string, string> | null = null

/**
 * A set with all letters that some regular-expression engine may match with it when case does not matter, such as the
 * long s for s.
 */
export function withAllCases(set: CodePoints): CodePoints {
  letters ??= lettersByCase()
  const related = [...letters].filter(([, group]) => intersection(setOf(group), set).length > 0)
  return union(set, ...related.map(([, group]) => setOf(group)))
}

function lettersByCase(): Map<string, string> {
  const groups = new Map<string, string>()
  for (const [first, last] of charactersWith('Changes_When_Casemapped')!) {
    for (let code = first; code <= last; code++) {
      const character = String.fromCodePoint(code)
      const key = character.toLowerCase().toUpperCase()
      groups.set(key, (groups.get(key) ?? '') + character)
    }
  }
  return groups
}

function isOne(text: string): boolean {
  return [...text].length === 1
}
