import { type CodePoints, complement } from '../../../regex/code-points.ts'
import type { Pattern } from '../../../regex/pattern.ts'
import { type ByteRange, byteSequences } from './utf8.ts'

/** An expression of XGrammar's EBNF. It can stand anywhere: whatever needs parentheses has them. */
export type Expression = string

const LARGEST_GRAMMAR = 400_000

/** A grammar that grows rule by rule. */
export class Ebnf {
  readonly #rules: (string | null)[] = []
  readonly #names = new Map<Expression, string>()
  #size = 0

  /** A rule for an expression; the same expression gets the same rule. */
  rule(expression: Expression): Expression {
    const known = this.#names.get(expression)
    if (known !== undefined) return known
    const name = this.reserve()
    this.#names.set(expression, name)
    this.define(name, expression)
    return name
  }

  /** A rule that is defined later, so that it can refer to itself. */
  reserve(): Expression {
    this.#rules.push(null)
    return `r${this.#rules.length - 1}`
  }

  define(name: Expression, expression: Expression): void {
    this.#size += expression.length
    if (this.#size > LARGEST_GRAMMAR) throw new GrammarSizeError('it is too large')
    this.#rules[Number(name.slice(1))] = expression
  }

  toText(root: Expression): string {
    return [`root ::= ${root}`, ...this.#rules.map((expression, index) => `r${index} ::= ${expression}`)].join('\n')
  }

  /** One character out of a set, in UTF-8. */
  characters(set: CodePoints): Expression {
    // A negated class takes in everything beyond ASCII. It is one step for XGrammar, where sequences of bytes are many.
    const excluded = complement(set)
    const last = excluded.at(-1)
    if (last !== undefined && last[1] <= LAST_ASCII) return byteClass(excluded, '^')
    const sequences = set.flatMap(byteSequences)
    const single = sequences.filter((bytes) => bytes.length === 1).flat()
    const longer = sequences.filter((bytes) => bytes.length > 1)
    const options = longer.map((bytes) => sequence(bytes.map((range) => byteClass([range]))))
    if (single.length > 0) options.unshift(byteClass(single))
    return options.length > INLINE_OPTIONS ? this.rule(choice(options)) : choice(options)
  }

  /**
   * @param characters says how one character out of a set is written; `counted` when it stands in a long count, where
   * anything but a single class is slow to compile and to follow.
   */
  pattern(
    pattern: Pattern,
    characters: (set: CodePoints, counted: boolean) => Expression,
    counted = false,
  ): Expression {
    switch (pattern.type) {
      case 'character':
        return characters(pattern.set, counted)
      case 'sequence':
        return sequence(pattern.parts.map((part) => this.pattern(part, characters, counted)))
      case 'choice':
        return choice(pattern.options.map((option) => this.pattern(option, characters, counted)))
      case 'repeat': {
        const long = Math.max(pattern.min, pattern.max ?? 0) > LONG_COUNT
        return repeat(this.pattern(pattern.part, characters, counted || long), pattern.min, pattern.max)
      }
    }
  }
}

const LAST_ASCII = 0x7f
const INLINE_OPTIONS = 3
export const LONG_COUNT = 8

export class GrammarSizeError extends Error {}

const EMPTY: Expression = '""'

export function literal(text: string): Expression {
  const escaped = [...text].map((character) =>
    /^[\x20-\x7e]$/.test(character) && character !== '"' && character !== '\\'
      ? character
      : `\\U${character.codePointAt(0)!.toString(16).padStart(8, '0')}`,
  )
  return `"${escaped.join('')}"`
}

/**
 * One byte. XGrammar reads a class as a set of bytes, whatever its documentation says of characters, except that it turns
 * a class of one member into that character: so there are always two. `xgrammar.ts` makes sure of both.
 */
function byteClass(ranges: readonly ByteRange[], negation: '' | '^' = ''): Expression {
  const members = ranges.map(([first, last]) => `${byte(first)}-${byte(last)}`)
  return `[${negation}${(members.length === 1 ? [...members, ...members] : members).join('')}]`
}

function byte(value: number): string {
  return `\\x${value.toString(16).padStart(2, '0')}`
}

export function sequence(parts: readonly Expression[]): Expression {
  const full = parts.filter((part) => part !== EMPTY)
  if (full.length <= 1) return full[0] ?? EMPTY
  return `(${full.join(' ')})`
}

export function choice(options: readonly Expression[]): Expression {
  return options.length === 1 ? options[0]! : `(${options.join(' | ')})`
}

export function optional(expression: Expression): Expression {
  return choice([EMPTY, expression])
}

/** @param max null for no end. */
export function repeat(expression: Expression, min: number, max: number | null): Expression {
  if (max === 0 || expression === EMPTY) return EMPTY
  if (min === 1 && max === 1) return expression
  if (min === 0 && max === 1) return optional(expression)
  if (max === null && min <= 1) return `(${expression}${min === 0 ? '*' : '+'})`
  return `(${expression}{${min},${max ?? ''}})`
}
