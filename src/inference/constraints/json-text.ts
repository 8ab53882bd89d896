import { choice, type Ebnf, type Expression, literal, optional, range, repeat, sequence } from './ebnf.ts'
import { type CodePoints, complement, difference, intersection, setOf, union } from './regex/code-points.ts'

/** Between the parts of an object or an array, as Python writes them: models have read most JSON in that form. */
export const COMMA = ', '
export const COLON = ': '

const CONTROLS: CodePoints = [[0x00, 0x1f]]
const SHORT_ESCAPES = new Map(
  [...'"\\\b\f\n\r\t'].map((character) => [character, JSON.stringify(character).slice(1, -1)]),
)
const ESCAPED = union(CONTROLS, setOf('"\\'))
const LONGEST_NUMBER = 15

const DIGIT = range('0', '9')
const POSITIVE = sequence([range('1', '9'), repeat(DIGIT, 0, LONGEST_NUMBER - 1)])

/** JSON as the constraints write it: one way to write each value, so that a model cannot dawdle. */
export class JsonText {
  readonly #ebnf: Ebnf
  #any: Expression | null = null

  constructor(ebnf: Ebnf) {
    this.#ebnf = ebnf
  }

  /** How one character out of a set stands in a string. Control characters without a short escape are left out. */
  character(set: CodePoints): Expression {
    const plain = difference(set, ESCAPED)
    const options: Expression[] = []
    if (plain.length > 0) options.push(this.#ebnf.characters(plain))
    for (const [character, written] of SHORT_ESCAPES) {
      if (intersection(set, setOf(character)).length > 0) options.push(literal(written))
    }
    for (const [first, last] of options.length === 0 ? set : []) {
      for (let code = first; code <= last; code++) {
        options.push(literal(JSON.stringify(String.fromCodePoint(code)).slice(1, -1)))
      }
    }
    return choice(options)
  }

  /** @param max null for no end. */
  string(min: number, max: number | null): Expression {
    return this.quoted(repeat(this.character(complement([])), min, max))
  }

  quoted(content: Expression): Expression {
    return this.#ebnf.rule(sequence([literal('"'), content, literal('"')]))
  }

  /** Within what a double holds exactly. */
  integer(): Expression {
    return this.#ebnf.rule(choice([literal('0'), sequence([optional(literal('-')), POSITIVE])]))
  }

  number(): Expression {
    const fraction = sequence([literal('.'), repeat(DIGIT, 1, LONGEST_NUMBER)])
    const exponent = sequence([
      choice([literal('e'), literal('E')]),
      optional(choice([literal('+'), literal('-')])),
      repeat(DIGIT, 1, 2),
    ])
    const whole = choice([literal('0'), POSITIVE])
    return this.#ebnf.rule(sequence([optional(literal('-')), whole, optional(fraction), optional(exponent)]))
  }

  /** @param min of the items; @param max null for no end. */
  array(item: Expression, min: number, max: number | null): Expression {
    if (max === 0) return literal('[]')
    const rest = repeat(sequence([literal(COMMA), item]), Math.max(0, min - 1), max === null ? null : max - 1)
    const filled = sequence([literal('['), item, rest, literal(']')])
    return min === 0 ? choice([literal('[]'), filled]) : filled
  }

  /** An object with whatever keys. */
  map(value: Expression): Expression {
    const member = sequence([this.string(0, null), literal(COLON), value])
    const rest = repeat(sequence([literal(COMMA), member]), 0, null)
    return choice([literal('{}'), sequence([literal('{'), member, rest, literal('}')])])
  }

  /** Any value at all. */
  any(): Expression {
    if (this.#any !== null) return this.#any
    const name = this.#ebnf.reserve()
    this.#any = name
    const options = [this.map(name), this.array(name, 0, null), this.string(0, null), this.number()]
    this.#ebnf.define(name, choice([...options, ...['true', 'false', 'null'].map(literal)]))
    return name
  }

  /** A value that is known. */
  constant(value: unknown): Expression {
    return literal(jsonOf(value))
  }
}

function jsonOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(COMMA)}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).map(([key, inner]) => `${JSON.stringify(key)}${COLON}${jsonOf(inner)}`)
  return `{${members.join(COMMA)}}`
}
