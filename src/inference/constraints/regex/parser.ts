import { ALL, type CodePoints, complement, intersection, type Range, setOf, union } from './code-points.ts'
import { ANYTHING, type Assertion, EMPTY, inOrder, type Syntax } from './pattern.ts'
import { charactersWith, withAllCases, withOtherCases } from './unicode.ts'

/** The text is not a pattern, or uses syntax that this server does not support. The message says what and where. */
export class PatternError extends Error {}

const DIGITS: CodePoints = [[0x30, 0x39]]
const WORD: CodePoints = union(DIGITS, [[0x41, 0x5a]], setOf('_'), [[0x61, 0x7a]])
/** JavaScript's white space. */
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

const LONGEST_PATTERN = 10_000
const DEEPEST_NESTING = 50
/** Largest count in braces. */
const LARGEST_COUNT = 10_000
/** Maximum expansion of a pattern, which determines the size of its compiled form. */
const LARGEST_EXPANSION = 50_000

const WORD_BEFORE: Syntax = inOrder([ANYTHING, { type: 'character', set: WORD }])
const WORD_AFTER: Syntax = inOrder([{ type: 'character', set: WORD }, ANYTHING])
/** Names of lookarounds, with their direction. */
const LOOKAROUNDS = [
  { name: '(?=', side: 'after', negated: false },
  { name: '(?!', side: 'after', negated: true },
  { name: '(?<=', side: 'before', negated: false },
  { name: '(?<!', side: 'before', negated: true },
] as const
/** Unsupported forms of groups and escapes, with their names for errors. */
const UNSUPPORTED_GROUPS: readonly [form: RegExp, name: string][] = [
  [/^\?>/, "the atomic group '(?>'"],
  [/^\?P=/, "the backreference '(?P='"],
  [/^\?#/, "the comment '(?#'"],
  [/^\?\(/, "the conditional '(?('"],
]

/**
 * Parses JavaScript's regular expressions with the flag `u`, except backreferences. Escapes and braces that only other
 * flags allow are accepted where their meaning is clear, as are `\A`, `\Z`, `\z`, `(?P<name>`, `(?i)` and `(?s)` of
 * other languages.
 * @throws PatternError
 */
export function parseSyntax(source: string): Syntax {
  if (source.length > LONGEST_PATTERN) {
    throw new PatternError(`the pattern has ${source.length} characters, at most ${LONGEST_PATTERN} are supported`)
  }
  const syntax = new Parser(source).parse()
  const size = expansionOf(syntax)
  if (size > LARGEST_EXPANSION) {
    throw new PatternError(`its repetitions multiply to ${size} characters, at most ${LARGEST_EXPANSION} are supported`)
  }
  return syntax
}

/** Length of the longest text, in characters, if every unbounded repetition occurs once. */
export function expansionOf(pattern: Syntax): number {
  switch (pattern.type) {
    case 'character':
      return 1
    case 'assertion':
      return expansionOf(pattern.text)
    case 'sequence':
      return pattern.parts.reduce((sum, part) => sum + expansionOf(part), 0)
    case 'choice':
      return pattern.options.reduce((sum, option) => sum + expansionOf(option), 0)
    case 'repeat':
      return Math.max(1, expansionOf(pattern.part)) * Math.max(1, pattern.min, pattern.max ?? 1)
  }
}

/** How letters and dots are read from here on. */
interface Flags {
  /** Whether letters match both cases. */
  readonly i: boolean
  /** Whether a dot matches any character, line breaks included. */
  readonly s: boolean
}

class Parser {
  readonly #characters: readonly string[]
  /** Index of the last `}`. */
  readonly #lastBrace: number
  #at = 0
  #depth = 0
  #flags: Flags = { i: false, s: false }

  constructor(source: string) {
    this.#characters = [...source]
    this.#lastBrace = this.#characters.lastIndexOf('}')
  }

  parse(): Syntax {
    const syntax = this.#choice()
    if (this.#at < this.#characters.length) throw this.#error("')' has no '('")
    return syntax
  }

  #choice(): Syntax {
    const flags = this.#flags
    const options = [this.#sequence()]
    while (this.#take('|')) options.push(this.#sequence())
    this.#flags = flags
    return options.length === 1 ? options[0]! : { type: 'choice', options }
  }

  #sequence(): Syntax {
    const parts: Syntax[] = []
    for (;;) {
      const next = this.#characters[this.#at]
      if (next === undefined || next === '|' || next === ')') break
      const part = this.#repeated()
      if (part.type === 'sequence') for (const inner of part.parts) parts.push(inner)
      else parts.push(part)
    }
    return parts.length === 1 ? parts[0]! : { type: 'sequence', parts }
  }

  #repeated(): Syntax {
    const at = this.#at
    const part = this.#atom()
    const times = this.#quantifier()
    if (times === null) return part
    if (part.type === 'assertion' && part.at === at) throw this.#error('nothing to repeat')
    // A lazy repetition matches the same texts.
    this.#take('?')
    if (this.#characters[this.#at] === '+') throw this.#error('possessive repetitions are not supported')
    if ('*?'.includes(this.#characters[this.#at] ?? ' ')) throw this.#error('nothing to repeat')
    return { type: 'repeat', part, ...times }
  }

  #quantifier(): { min: number; max: number | null } | null {
    if (this.#take('*')) return { min: 0, max: null }
    if (this.#take('+')) return { min: 1, max: null }
    if (this.#take('?')) return { min: 0, max: 1 }
    if (this.#characters[this.#at] !== '{') return null
    let end = this.#at + 1
    while (/[\s\d,]/.test(this.#characters[end] ?? '')) end++
    const isClosed = this.#at < this.#lastBrace
    if (isClosed && this.#characters[end] !== '}') return null
    const inner = isClosed ? this.#characters.slice(this.#at + 1, end).join('') : ''
    const counts = inner.match(/^(\d{1,9})(?:(,)(\d{1,9})?)?$/)
    if (counts === null && /^\s*(?:\d+\s*)?(?:,\s*(?:\d+\s*)?|(?<=\s)\d+\s*)?$/.test(inner)) {
      throw this.#error("'{' opens no count; write '\\{' for the character")
    }
    if (counts === null) return null
    const min = Number(counts[1])
    const max = counts[2] === undefined ? min : counts[3] === undefined ? null : Number(counts[3])
    if (max !== null && max < min) throw this.#error(`the count {${inner}} is out of order`)
    if (Math.max(min, max ?? 0) > LARGEST_COUNT) throw this.#error(`counts above ${LARGEST_COUNT} are not supported`)
    this.#at = end + 1
    return { min, max }
  }

  #atom(): Syntax {
    const at = this.#at
    const character = this.#next()
    switch (character) {
      case '^':
        return this.#edge('before', character, at)
      case '$':
        return this.#edge('after', character, at)
      case '(':
        return this.#group(at)
      case '[':
        return this.#class()
      case '.':
        return oneOf(this.#flags.s ? ALL : DOT)
      case '\\':
        return this.#boundary(at) ?? this.#oneOf(this.#cased(this.#escape(false)))
      case '*':
      case '+':
      case '?':
        throw this.#error('nothing to repeat')
      default:
        return this.#oneOf(this.#cased(setOf(character)))
    }
  }

  /** An assertion in the form of an escape. */
  #boundary(at: number): Syntax | null {
    const letter = this.#characters[this.#at]
    const name = `\\${letter}`
    switch (letter) {
      case 'A':
        this.#at++
        return this.#edge('before', name, at)
      case 'Z':
      case 'z':
        this.#at++
        return this.#edge('after', name, at)
      case 'b':
      case 'B': {
        this.#at++
        const beside = (side: Assertion['side'], negated: boolean): Syntax => ({
          ...{ type: 'assertion', name, at, side, negated },
          text: side === 'before' ? WORD_BEFORE : WORD_AFTER,
        })
        const options = [true, false].map((negated) =>
          inSequence([beside('before', negated), beside('after', letter === 'b' ? !negated : negated)]),
        )
        return { type: 'choice', options }
      }
      default:
        return null
    }
  }

  #edge(side: Assertion['side'], name: string, at: number): Syntax {
    return { type: 'assertion', side, text: EMPTY, negated: false, name, at }
  }

  #group(at: number): Syntax {
    const rest = this.#characters.slice(this.#at, this.#at + 12).join('')
    const lookaround = LOOKAROUNDS.find(({ name }) => rest.startsWith(name.slice(1)))
    const flags = rest.match(/^\?([a-z]+)([:)])/)
    const isNamed = /^\?P?</.test(rest)
    if (flags !== null) {
      const unknown = [...flags[1]!].find((flag) => !'isu'.includes(flag))
      if (unknown !== undefined) throw this.#error(`the flag '${unknown}' of '(?${flags[1]}' is not supported`)
      this.#at += flags[0].length
    } else if (lookaround !== undefined) this.#at += lookaround.name.length - 1
    else if (rest.startsWith('?:')) this.#at += 2
    else if (isNamed) this.#at = this.#characters.indexOf('>', this.#at) + 1 || this.#unclosed()
    else if (rest.startsWith('?') || rest.startsWith('*')) {
      const known = UNSUPPORTED_GROUPS.find(([form]) => form.test(rest))
      throw this.#error(`${known?.[1] ?? `'(${rest.slice(0, 2)}'`} is not supported`)
    }
    const outer = this.#flags
    if (flags !== null) this.#flags = { i: outer.i || flags[1]!.includes('i'), s: outer.s || flags[1]!.includes('s') }
    if (flags?.[2] === ')') return EMPTY
    if (++this.#depth > DEEPEST_NESTING) throw this.#error(`groups deeper than ${DEEPEST_NESTING} are not supported`)
    const inner = this.#choice()
    this.#flags = outer
    if (!this.#take(')')) this.#unclosed()
    this.#depth--
    if (lookaround === undefined) return inner
    const text = inSequence(lookaround.side === 'after' ? [inner, ANYTHING] : [ANYTHING, inner])
    return { type: 'assertion', ...lookaround, text, at }
  }

  #unclosed(): never {
    throw this.#error("'(' is not closed")
  }

  #class(): Syntax {
    const negated = this.#take('^')
    const ranges: CodePoints[] = []
    while (!this.#take(']')) {
      const posix = this.#characters
        .slice(this.#at, this.#at + 12)
        .join('')
        .match(/^\[:\^?[a-z]+:\]/)
      if (posix !== null) throw this.#error(`the class '${posix[0]}' is not supported`)
      const first = this.#member()
      const ranged = this.#characters[this.#at] === '-' && (this.#characters[this.#at + 1] ?? ']') !== ']'
      if (!ranged) {
        ranges.push(first)
        continue
      }
      this.#at++
      const last = this.#member()
      // Next to a class, a hyphen is literal.
      if (!isSingle(first) || !isSingle(last)) {
        ranges.push(first, setOf('-'), last)
        continue
      }
      const range: Range = [first[0]![0], last[0]![0]]
      if (range[0] > range[1]) throw this.#error('a range in a class is out of order')
      ranges.push([range])
    }
    const set = union(...ranges)
    const excluded = () => complement(this.#flags.i ? withAllCases(set) : set)
    return this.#oneOf(negated ? excluded() : this.#cased(set))
  }

  /** Half of a surrogate pair is not a character. */
  #oneOf(set: CodePoints): Syntax {
    const known = intersection(set, ALL)
    if (known.length === 0) throw this.#error('it matches no character')
    return oneOf(known)
  }

  #member(): CodePoints {
    const character = this.#characters[this.#at]
    if (character === undefined) throw this.#error("'[' is not closed")
    this.#at++
    return character === '\\' ? this.#escape(true) : setOf(character)
  }

  #cased(set: CodePoints): CodePoints {
    return this.#flags.i ? withOtherCases(set) : set
  }

  #escape(inClass: boolean): CodePoints {
    const character = this.#next()
    if (Object.hasOwn(CLASSES, character)) return CLASSES[character]!
    if (inClass && character === 'b') return [[8, 8]]
    if (character === '0' && /\d/.test(this.#characters[this.#at] ?? '')) throw this.#error('octal escape')
    if (Object.hasOwn(CONTROLS, character)) return [[CONTROLS[character]!, CONTROLS[character]!]]
    if (character === 'x') return this.#codePoint(/^([0-9a-f]{2})/i, inClass)
    if (character === 'u') return this.#codePoint(/^(?:([0-9a-f]{4})|\{([0-9a-f]{1,6})\})/i, inClass)
    if (character === 'p' || character === 'P') return this.#property(character === 'P')
    if (character === 'c' && /[A-Za-z]/.test(this.#characters[this.#at] ?? '')) {
      const control = this.#next().charCodeAt(0) % 32
      return [[control, control]]
    }
    if (/[1-9k]/.test(character)) throw this.#error(`the backreference '\\${character}' is not supported`)
    // Every other letter means something that is not regular, or nothing at all.
    if (/[A-Za-z]/.test(character)) throw this.#error(`'\\${character}' is not supported`)
    return setOf(character)
  }

  /** Also without braces, as in `\pL`. */
  #property(negated: boolean): CodePoints {
    const rest = this.#characters.slice(this.#at, this.#at + 60).join('')
    const [form, long, short] = rest.match(/^(?:\{([\w=]+)\}|([A-Z]))/) ?? []
    const set = form === undefined ? null : charactersWith((long ?? short)!)
    if (set === null) throw this.#error(`the property '\\p${rest.match(/^\{[^}]*\}|^./)?.[0] ?? ''}' is not known`)
    this.#at += form!.length
    return negated ? complement(set) : set
  }

  #codePoint(form: RegExp, inClass: boolean): CodePoints {
    const rest = this.#characters.slice(this.#at, this.#at + 12).join('')
    const pair = rest.match(/^(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})/i)
    if (pair !== null) {
      this.#at += pair[0].length
      return setOf(String.fromCharCode(...pair.slice(1).map((unit) => Number.parseInt(unit, 16))))
    }
    const found = rest.match(form)
    const value = Number.parseInt(found?.[1] ?? found?.[2] ?? '', 16)
    // A range may end with half of a surrogate pair.
    const isHalf = value >= 0xd800 && value <= 0xdfff
    if (!(value <= 0x10ffff) || (isHalf && !inClass)) throw this.#error('the escape names no character')
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

function oneOf(set: CodePoints): Syntax {
  return { type: 'character', set }
}

function inSequence(parts: readonly Syntax[]): Syntax {
  return { type: 'sequence', parts }
}

function isSingle(set: CodePoints): boolean {
  return set.length === 1 && set[0]![0] === set[0]![1]
}
