import {
  characters,
  choice,
  type Expression,
  type GrammarBuilder,
  literal,
  matching,
  optional,
  range,
  repeat,
  sequence,
} from './grammar.ts'
import { machineText } from './machine-text.ts'
import { integersWithin } from './numbers/number-range.ts'
import type { Alphabet as RegexAlphabet } from './regex/alphabet.ts'
import { ALL, type CodePoints, complement, difference, intersection, setOf, union } from './regex/code-points.ts'
import { characterSets } from './regex/determiniser.ts'
import { ANYTHING, inOrder, type Pattern } from './regex/pattern.ts'
import type { StateMachine } from './regex/state-machine.ts'
import { type Alphabet, textWithout } from './text-without.ts'

/** How values are written. */
export interface ValueStyle {
  /** Null for JSON strings, which are escaped. Text between other quotes is not escaped. */
  readonly quote: string | null
  /** Texts that no string may contain. */
  readonly without: readonly string[]
  readonly comma: string
  readonly colon: string
  /** Spellings of true, false and null; constants use the first of each. */
  readonly words: {
    readonly true: readonly string[]
    readonly false: readonly string[]
    readonly null: readonly string[]
  }
}

/** Formatted as Python writes JSON: models have read most of their JSON in that form. */
export const JSON_STYLE: ValueStyle = {
  quote: null,
  without: [],
  comma: ', ',
  colon: ': ',
  words: { true: ['true'], false: ['false'], null: ['null'] },
}

/** Python accepts JSON's strings. Models that write Python have also read JSON's words in calls. */
export const PYTHON_STYLE: ValueStyle = {
  ...JSON_STYLE,
  words: { true: ['True', 'true'], false: ['False', 'false'], null: ['None', 'null'] },
}

const CONTROLS: CodePoints = [[0x00, 0x1f]]
const SHORT_ESCAPES = new Map(
  [...'"\\\b\f\n\r\t'].map((character) => [character, JSON.stringify(character).slice(1, -1)]),
)
const ESCAPED = union(CONTROLS, setOf('"\\'))
const JSON_CHARACTERS: Alphabet = { plain: complement(ESCAPED), escapes: [...SHORT_ESCAPES.values()] }
const ANY_CHARACTERS: Alphabet = { plain: ALL, escapes: [] }
const IN_ESCAPES = union(setOf('\\"'), [[0x30, 0x39]], [[0x61, 0x7a]])
const BARE_KEY = /^[^\s:,{}[\]]+$/
/** Maximum digits after the decimal point. */
const LONGEST_FRACTION = 15

const DIGIT = range('0', '9')
const INTEGER = integersWithin({ min: null, max: null })!
const NATURAL = integersWithin({ min: { value: 0, exclusive: false }, max: null })!
const LETTER = choice([range('A', 'Z'), range('a', 'z'), literal('_')])
/** An unquoted name that is not in the schema. */
export const NAME = sequence([LETTER, repeat(choice([LETTER, DIGIT, literal('.'), literal('-')]), 0, null)])

/** Writes values as constraints require them: there is one way to write each, so that a model cannot dawdle. */
export class ValueText {
  readonly comma: Expression
  readonly #style: ValueStyle
  /** Texts that no string may contain. */
  readonly #marks: readonly string[]
  readonly #builder: GrammarBuilder
  #any: Expression | null = null

  constructor(style: ValueStyle, builder: GrammarBuilder) {
    this.#style = style
    this.#marks = [...(style.quote ? [style.quote] : []), ...style.without]
    this.#builder = builder
    this.comma = literal(style.comma)
  }

  /** @param max null for no end. Counts are enforced only if a string may contain any text. */
  string(min: number, max: number | null): Expression {
    if (this.#marks.length === 0) return this.#quoted(repeat(this.#character(ALL), min, max))
    const { quote } = this.#style
    const text = this.#builder.part(JSON.stringify([quote, this.#marks]), (builder) =>
      textWithout(this.#marks, quote === null ? JSON_CHARACTERS : ANY_CHARACTERS, builder),
    )
    return this.#quoted(text)
  }

  /** Characters that a string may contain in any order without forming a forbidden text. */
  get anything(): CodePoints {
    return difference(ALL, setOf(this.#marks.map((mark) => mark.slice(0, 1)).join('')))
  }

  /** Strings that a pattern matches; null if some of them may contain a forbidden text. */
  matching(pattern: Pattern): Expression | null {
    if (this.#marks.length > 0) {
      const written = union(...characterSets(pattern), IN_ESCAPES)
      if (this.#marks.some((mark) => difference(setOf(mark), written).length === 0)) return null
    }
    return this.#quoted(matching(pattern, (set) => this.#character(set)))
  }

  /** Strings of the texts that a state machine accepts. */
  accepted(machine: StateMachine, alphabet: RegexAlphabet): Expression {
    return this.#quoted(machineText(machine, alphabet, (set) => this.#character(set), this.#builder))
  }

  /**
   * Patterns that no string may match, so that it contains no forbidden text. A JSON string has escapes in place of
   * some characters, and a mark may begin inside one.
   */
  get forbidden(): readonly Pattern[] {
    const isJson = this.#style.quote === null
    return this.#marks.map((mark) => {
      const sets = isJson && mark.includes('\\') ? [ESCAPED] : [...mark].map(setOf)
      if (isJson && intersection(sets[0]!, IN_ESCAPES).length > 0) sets[0] = union(sets[0]!, ESCAPED)
      return inOrder([ANYTHING, ...sets.map((set): Pattern => ({ type: 'character', set })), ANYTHING])
    })
  }

  integer(): Expression {
    return this.#builder.rule(INTEGER)
  }

  number(): Expression {
    const fraction = sequence([literal('.'), repeat(DIGIT, 1, LONGEST_FRACTION)])
    const exponent = sequence([
      choice([literal('e'), literal('E')]),
      optional(choice([literal('+'), literal('-')])),
      repeat(DIGIT, 1, 2),
    ])
    return this.#builder.rule(sequence([optional(literal('-')), NATURAL, optional(fraction), optional(exponent)]))
  }

  /**
   * @param min number of items.
   * @param max number of items; null for no end.
   */
  array(item: Expression, min: number, max: number | null): Expression {
    if (max === 0) return literal('[]')
    const filled = sequence([
      literal('['),
      item,
      this.moreItems(item, Math.max(0, min - 1), max === null ? null : max - 1),
      literal(']'),
    ])
    return min === 0 ? choice([literal('[]'), filled]) : filled
  }

  /** Further items after the first. */
  moreItems(item: Expression, min: number, max: number | null): Expression {
    return repeat(sequence([this.comma, item]), min, max)
  }

  /** An object with any keys. */
  map(value: Expression): Expression {
    const member = this.freeMember(null, value)
    return choice([literal('{}'), sequence([literal('{'), this.listOf(member), literal('}')])])
  }

  /** One or more, separated by commas. */
  listOf(member: Expression): Expression {
    return sequence([member, repeat(sequence([this.comma, member]), 0, null)])
  }

  booleans(values: readonly boolean[] = [true, false]): Expression {
    const { words } = this.#style
    return choice(values.flatMap((value) => words[`${value}`]).map(literal))
  }

  nothing(): Expression {
    return choice(this.#style.words.null.map(literal))
  }

  /**
   * A member whose key is not in the schema.
   * @param key as a string; null for any.
   */
  freeMember(key: Expression | null, value: Expression): Expression {
    const any = this.#style.quote === null ? this.string(0, null) : NAME
    return sequence([key ?? any, literal(this.#style.colon), value])
  }

  /** Whether keys are written like strings. */
  get hasQuotedKeys(): boolean {
    return this.#style.quote === null
  }

  /** The name of a member and the separator after it; null if it cannot be written. */
  key(name: string): Expression | null {
    const text = this.#keyOf(name)
    return text === null ? null : literal(text + this.#style.colon)
  }

  /** Any value at all. */
  any(): Expression {
    if (this.#any !== null) return this.#any
    const name = this.#builder.reserve()
    this.#any = name
    const options = [this.map(name), this.array(name, 0, null), this.string(0, null), this.number()]
    this.#builder.define(name, choice([...options, this.booleans(), this.nothing()]))
    return name
  }

  /** A constant value; null if it cannot be written. */
  constant(value: unknown): Expression | null {
    const text = this.#textOf(value)
    return text === null ? null : literal(text)
  }

  /** One character from a set, as it is written in a string. Control characters without a short escape are left out. */
  #character(set: CodePoints): Expression {
    if (this.#style.quote !== null) return characters(set)
    const plain = difference(set, ESCAPED)
    const options: Expression[] = []
    if (plain.length > 0) options.push(characters(plain))
    const escapes = [...SHORT_ESCAPES].filter(([character]) => intersection(set, setOf(character)).length > 0)
    if (escapes.length > 0) {
      const behind = setOf(escapes.map(([, written]) => written.slice(1)).join(''))
      options.push(sequence([literal('\\'), characters(behind)]))
    }
    for (const [first, last] of options.length === 0 ? set : []) {
      for (let code = first; code <= last; code++) {
        options.push(literal(JSON.stringify(String.fromCodePoint(code)).slice(1, -1)))
      }
    }
    return choice(options)
  }

  #quoted(content: Expression): Expression {
    const quote = literal(this.#style.quote ?? '"')
    return this.#builder.rule(sequence([quote, content, quote]))
  }

  #textOf(value: unknown): string | null {
    const { comma, colon } = this.#style
    if (Array.isArray(value)) {
      const items = value.map((item) => this.#textOf(item))
      return items.includes(null) ? null : `[${items.join(comma)}]`
    }
    if (typeof value === 'string') return this.#stringOf(value)
    if (value === null || typeof value === 'boolean') return this.#style.words[`${value}`][0]!
    if (typeof value !== 'object') return JSON.stringify(value)
    const members = Object.entries(value).map(([key, inner]) => [this.#keyOf(key), this.#textOf(inner)])
    return members.flat().includes(null) ? null : `{${members.map((member) => member.join(colon)).join(comma)}}`
  }

  #stringOf(value: string): string | null {
    const { quote } = this.#style
    const text = quote === null ? JSON.stringify(value) : value
    if (this.#marks.some((mark) => text.includes(mark))) return null
    return quote === null ? text : quote + text + quote
  }

  #keyOf(name: string): string | null {
    const text = this.#stringOf(name)
    return this.#style.quote !== null && text !== null && BARE_KEY.test(name) ? name : text
  }
}
