import { ALL, type CodePoints, complement, type Range, setOf, union } from './code-points.ts'
import { type AnchoredPattern, EMPTY, inOrder, isEmpty, joined, type Pattern } from './pattern.ts'

/** The text is no pattern, or one that this server does not do. The message says what and where. */
export class PatternError extends Error {}

const DIGITS: CodePoints = [[0x30, 0x39]]
const WORD: CodePoints = union(DIGITS, [[0x41, 0x5a]], setOf('_'), [[0x61, 0x7a]])
/** What JavaScript counts as white space. */
const BLANKS: CodePoints = union(setOf('\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff'), [
  [0x2000, 0x200a],
])
const DOT: CodePoints = complement(setOf('\n\r\u2028\u2029'))

const CLASSES: Readonly<Record<string, CodePoints>> = {
  d: DIGITS,
  D: complement(DIGITS),
  w: WORD,
  W: complement(WORD),
  s: BLANKS,
  S: complement(BLANKS),
}
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, 0: 0 }
const LOOKAROUNDS = ['?=', '?!', '?<=', '?<!']

const LONGEST_PATTERN = 10_000
const DEEPEST_NESTING = 50
/** Largest count in braces. */
const LARGEST_COUNT = 10_000
/** Characters of the longest text when every unbounded repetition counts once: what a compiled pattern grows with. */
const LARGEST_EXPANSION = 50_000

/**
 * Parses the regular part of JavaScript's regular expressions, as a pattern of whole texts: no lookaround, no
 * backreferences, no word boundaries, no Unicode properties, and anchors only where a match begins or ends. Classes mean
 * what they mean there.
 * @throws PatternError
 */
export function parsePattern(source: string): Pattern {
  return joined(parseAnchored(source).map(({ pattern }) => pattern))
}

/**
 * Parses the same for a search, in which anchors matter. A text is found when one of the patterns matches a part of it that
 * begins and ends where its anchors ask for it.
 * @throws PatternError
 */
export function parseAnchored(source: string): readonly AnchoredPattern[] {
  if (source.length > LONGEST_PATTERN) {
    throw new PatternError(`the pattern has ${source.length} characters, at most ${LONGEST_PATTERN} are supported`)
  }
  const patterns = new Parser(source).parse()
  const size = patterns.reduce((sum, { pattern }) => sum + expansionOf(pattern), 0)
  if (size > LARGEST_EXPANSION) {
    throw new PatternError(`its repetitions multiply to ${size} characters, at most ${LARGEST_EXPANSION} are supported`)
  }
  return patterns
}

/** Characters of the longest text when every unbounded repetition counts once. */
export function expansionOf(pattern: Pattern): number {
  switch (pattern.type) {
    case 'character':
      return 1
    case 'sequence':
      return pattern.parts.reduce((sum, part) => sum + expansionOf(part), 0)
    case 'choice':
      return pattern.options.reduce((sum, option) => sum + expansionOf(option), 0)
    case 'repeat':
      return Math.max(1, expansionOf(pattern.part)) * Math.max(1, pattern.min, pattern.max ?? 1)
  }
}

/** A sequence that is being read. */
interface Begun {
  start: boolean
  end: boolean
  readonly parts: Pattern[]
}

class Parser {
  readonly #characters: readonly string[]
  #at = 0
  #depth = 0

  constructor(source: string) {
    this.#characters = [...source]
  }

  parse(): readonly AnchoredPattern[] {
    const patterns = this.#choice()
    if (this.#at < this.#characters.length) throw this.#error("')' has no '('")
    return patterns
  }

  /** Options with the same anchors become one pattern, so there are four at most. */
  #choice(): readonly AnchoredPattern[] {
    const options = [...this.#sequence()]
    while (this.#take('|')) options.push(...this.#sequence())
    const groups = Map.groupBy(options, ({ start, end }) => `${start} ${end}`)
    return [...groups.values()].map((group) => ({ ...group[0]!, pattern: joined(group.map(({ pattern }) => pattern)) }))
  }

  #sequence(): readonly AnchoredPattern[] {
    let begun: Begun[] = [{ start: false, end: false, parts: [] }]
    for (;;) {
      const next = this.#characters[this.#at]
      if (next === undefined || next === '|' || next === ')') break
      const options = this.#anchor() ?? this.#repeated()
      if (options.length > 1)
        begun = begun.flatMap((before) => options.map(() => ({ ...before, parts: [...before.parts] })))
      for (const [index, before] of begun.entries()) this.#append(before, options[index % options.length]!)
    }
    return begun.map(({ parts, ...anchors }) => ({ ...anchors, pattern: inOrder(parts) }))
  }

  #anchor(): readonly AnchoredPattern[] | null {
    if (this.#take('^')) return [{ ...free(EMPTY), start: true }]
    return this.#take('$') ? [{ ...free(EMPTY), end: true }] : null
  }

  #append(before: Begun, { start, end, pattern }: AnchoredPattern): void {
    const astray = start && before.parts.length > 0 ? '^' : before.end && !isEmpty(pattern) ? '$' : null
    if (astray !== null) throw this.#error(`'${astray}' is only supported at the ends of the pattern`)
    before.start ||= start
    before.end ||= end
    for (const part of pattern.type === 'sequence' ? pattern.parts : [pattern]) before.parts.push(part)
  }

  #repeated(): readonly AnchoredPattern[] {
    const part = this.#atom()
    const times = this.#quantifier()
    if (times === null) return part
    // A lazy repetition matches the same texts.
    this.#take('?')
    if ('*+?'.includes(this.#characters[this.#at] ?? ' ')) throw this.#error('nothing to repeat')
    if (part.every(({ start, end }) => !start && !end)) {
      return part.map(({ pattern }) => free({ type: 'repeat', part: pattern, ...times }))
    }
    if (times.min > 0 || times.max !== 1) throw this.#error('an anchor within a repetition is not supported')
    return [free(EMPTY), ...part]
  }

  #quantifier(): { min: number; max: number | null } | null {
    if (this.#take('*')) return { min: 0, max: null }
    if (this.#take('+')) return { min: 1, max: null }
    if (this.#take('?')) return { min: 0, max: 1 }
    if (this.#characters[this.#at] !== '{') return null
    const end = this.#characters.indexOf('}', this.#at)
    const inner = end < 0 ? '' : this.#characters.slice(this.#at + 1, end).join('')
    const counts = inner.match(/^(\d{1,9})(?:(,)(\d{1,9})?)?$/)
    if (counts === null) throw this.#error("'{' opens no count; write '\\{' for the character")
    const min = Number(counts[1])
    const max = counts[2] === undefined ? min : counts[3] === undefined ? null : Number(counts[3])
    if (max !== null && max < min) throw this.#error(`the count {${inner}} is out of order`)
    if (Math.max(min, max ?? 0) > LARGEST_COUNT) throw this.#error(`counts above ${LARGEST_COUNT} are not supported`)
    this.#at = end + 1
    return { min, max }
  }

  #atom(): readonly AnchoredPattern[] {
    const character = this.#next()
    switch (character) {
      case '(':
        return this.#group()
      case '[':
        return [oneOf(this.#class())]
      case '.':
        return [oneOf(DOT)]
      case '\\':
        return [oneOf(this.#escape(false))]
      case '*':
      case '+':
      case '?':
        throw this.#error('nothing to repeat')
      case '{':
      case '}':
      case ']':
        throw this.#error(`'${character}' stands alone; write '\\${character}' for the character`)
      default:
        return [oneOf(setOf(character))]
    }
  }

  #group(): readonly AnchoredPattern[] {
    const rest = this.#characters.slice(this.#at, this.#at + 3).join('')
    const lookaround = LOOKAROUNDS.find((opening) => rest.startsWith(opening))
    if (lookaround !== undefined) throw this.#error(`lookaround '(${lookaround}' is not supported`)
    if (rest.startsWith('?:')) this.#at += 2
    else if (rest.startsWith('?<')) this.#at = this.#characters.indexOf('>', this.#at) + 1 || this.#unclosed()
    else if (rest.startsWith('?')) throw this.#error(`'(${rest.slice(0, 2)}' is not supported`)
    if (++this.#depth > DEEPEST_NESTING) throw this.#error(`groups deeper than ${DEEPEST_NESTING} are not supported`)
    const inner = this.#choice()
    if (!this.#take(')')) this.#unclosed()
    this.#depth--
    return inner
  }

  #unclosed(): never {
    throw this.#error("'(' is not closed")
  }

  #class(): CodePoints {
    const negated = this.#take('^')
    const ranges: CodePoints[] = []
    while (!this.#take(']')) {
      const first = this.#member()
      const ranged = this.#characters[this.#at] === '-' && (this.#characters[this.#at + 1] ?? ']') !== ']'
      if (!ranged) {
        ranges.push(first)
        continue
      }
      this.#at++
      const range: Range = [this.#single(first), this.#single(this.#member())]
      if (range[0] > range[1]) throw this.#error('a range in a class is out of order')
      ranges.push([range])
    }
    const set = union(...ranges)
    const known = negated ? complement(set) : complement(complement(set))
    if (known.length === 0) throw this.#error('the class matches no character')
    return known
  }

  #member(): CodePoints {
    const character = this.#characters[this.#at]
    if (character === undefined) throw this.#error("'[' is not closed")
    this.#at++
    return character === '\\' ? this.#escape(true) : setOf(character)
  }

  #single(set: CodePoints): number {
    if (set.length !== 1 || set[0]![0] !== set[0]![1]) throw this.#error('a range in a class needs single characters')
    return set[0]![0]
  }

  #escape(inClass: boolean): CodePoints {
    const character = this.#next()
    if (Object.hasOwn(CLASSES, character)) return CLASSES[character]!
    if (inClass && character === 'b') return [[8, 8]]
    if (character === '0' && /\d/.test(this.#characters[this.#at] ?? '')) throw this.#error('octal escape')
    if (Object.hasOwn(CONTROLS, character)) return [[CONTROLS[character]!, CONTROLS[character]!]]
    if (character === 'x') return this.#codePoint(/^([0-9a-f]{2})/i)
    if (character === 'u') return this.#codePoint(/^(?:([0-9a-f]{4})|\{([0-9a-f]{1,6})\})/i)
    // Every other letter or digit means something that is not regular, or nothing.
    if (/[A-Za-z0-9]/.test(character)) throw this.#error(`'\\${character}' is not supported`)
    return setOf(character)
  }

  #codePoint(form: RegExp): CodePoints {
    const found = this.#characters
      .slice(this.#at, this.#at + 8)
      .join('')
      .match(form)
    const value = Number.parseInt(found?.[1] ?? found?.[2] ?? '', 16)
    if (!ALL.some(([first, last]) => value >= first && value <= last))
      throw this.#error('the escape names no character')
    this.#at += found![0].length
    return [[value, value]]
  }

  #next(): string {
    const character = this.#characters[this.#at++]
    if (character === undefined) throw this.#error("'\\' at the end")
    return character
  }

  #take(character: string): boolean {
    if (this.#characters[this.#at] !== character) return false
    this.#at++
    return true
  }

  #error(reason: string): PatternError {
    return new PatternError(`${reason} (at character ${this.#at})`)
  }
}

function free(pattern: Pattern): AnchoredPattern {
  return { start: false, end: false, pattern }
}

function oneOf(set: CodePoints): AnchoredPattern {
  return free({ type: 'character', set })
}
