import { MediaError } from '../asking/media.ts'

/** The most patterns to which alternatives in braces may expand. */
const MOST_PATTERNS = 64

/**
 * Patterns of paths, as in shells: `*` and `?` within a name, `**` for any folders, `{a,b}` for alternatives. Letters
 * match in either case. Matching takes linear time in practice and quadratic time at worst, for any pattern.
 */
export class Glob {
  readonly #patterns: readonly (readonly (readonly string[])[])[]
  /** How many folders deep a match can be; infinite with `**`. */
  readonly depth: number

  /** @throws MediaError for too many alternatives. */
  constructor(pattern: string) {
    this.#patterns = alternatives(pattern.toLowerCase()).map((one) => one.split('/').map((name) => [...name]))
    const isDeep = this.#patterns.some((names) => names.some(isAnyFolders))
    this.depth = isDeep ? Number.POSITIVE_INFINITY : Math.max(...this.#patterns.map(({ length }) => length))
  }

  static isPattern(path: string): boolean {
    return /[*?]|\{[^{}]*,[^{}]*\}/.test(path)
  }

  /** @param path relative, with `/` between its names. */
  matches(path: string): boolean {
    const names = path
      .toLowerCase()
      .split('/')
      .map((name) => [...name])
    return this.#patterns.some((pattern) => fits(pattern, names, isAnyFolders, fitsName))
  }
}

function fitsName(pattern: readonly string[], name: readonly string[]): boolean {
  return fits(
    pattern,
    name,
    (letter) => letter === '*',
    (letter, other) => letter === '?' || letter === other,
  )
}

function isAnyFolders(name: readonly string[]): boolean {
  return name.length === 2 && name[0] === '*' && name[1] === '*'
}

/** Backtracks to the last wildcard only: the matches of earlier ones can stay. */
function fits<T>(
  pattern: readonly T[],
  given: readonly T[],
  isWildcard: (item: T) => boolean,
  isFit: (item: T, other: T) => boolean,
): boolean {
  let [at, next] = [0, 0]
  let [wildcard, resumed] = [-1, 0]
  while (next < given.length) {
    const item = pattern[at]
    if (item !== undefined && isWildcard(item)) {
      wildcard = at++
      resumed = next
    } else if (item !== undefined && isFit(item, given[next]!)) {
      at++
      next++
    } else if (wildcard >= 0) {
      at = wildcard + 1
      next = ++resumed
    } else return false
  }
  return pattern.slice(at).every(isWildcard)
}

function alternatives(pattern: string): string[] {
  let patterns = [pattern]
  for (;;) {
    let isExpanded = true
    patterns = patterns.flatMap((one) => {
      const found = /\{([^{}]*,[^{}]*)\}/.exec(one)
      if (found === null) return [one]
      isExpanded = false
      const choices = found[1]!.split(',')
      if (choices.length > MOST_PATTERNS) throw tooMany()
      const [before, after] = [one.slice(0, found.index), one.slice(found.index + found[0].length)]
      return choices.map((choice) => before + choice + after)
    })
    if (patterns.length > MOST_PATTERNS) throw tooMany()
    if (isExpanded) return patterns
  }
}

function tooMany(): MediaError {
  return new MediaError(`path: expected at most ${MOST_PATTERNS} alternatives in braces`)
}
