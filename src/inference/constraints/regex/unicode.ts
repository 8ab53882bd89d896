import { getOrMake } from '../../../lib/get-or-make.ts'
import { type CodePoints, intersection, type Range, setOf, union } from './code-points.ts'

const LAST = 0x10ffff
/** Sets with more characters are taken to have both cases of each letter. */
const MOST_CASED = 20_000

const properties = new Map<string, CodePoints | null>()

/**
 * The characters with a property of Unicode, such as `L`, `Letter` or `Script=Latin`, as JavaScript's engine knows it.
 * @returns null for a property that it does not know.
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

/** A set with the other case of each letter, where the two are each other's. */
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

/** A set with all letters that some engine may take for one of its own where case does not matter, such as the long s for s. */
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
