import { type CodePoints, complement } from './regex/code-points.ts'
import type { Pattern } from './regex/pattern.ts'
import { type ByteRange, byteSequences } from './utf8.ts'

/** What a grammar lets through. Made by the functions below; `Ebnf` writes it down. */
export type Expression = Terminal | Reference | Sequence | Choice | Repeat

export interface Terminal {
  readonly type: 'terminal'
  readonly text: string
  /** The same in bytes: any of these sequences. */
  readonly sequences: readonly (readonly ByteRange[])[]
  /** The bytes that it may begin with. */
  readonly first: readonly ByteRange[]
  /** Whether it is a class, one step for XGrammar. */
  readonly single: boolean
}

export interface Reference {
  readonly type: 'reference'
  readonly name: string
}

interface Sequence {
  readonly type: 'sequence'
  readonly parts: readonly Expression[]
}

interface Choice {
  readonly type: 'choice'
  readonly options: readonly Expression[]
}

interface Repeat {
  readonly type: 'repeat'
  readonly part: Expression
  readonly min: number
  /** Null for no end. */
  readonly max: number | null
}

const LARGEST_GRAMMAR = 400_000

/** Matches nothing. A rule that refers to it is no longer simple enough for XGrammar to copy it into others. */
const SEAL = 'seal'

/** A grammar as a tree of expressions. */
export interface Rules {
  readonly root: Expression
  readonly rules: ReadonlyMap<Reference, Expression>
}

/**
 * A grammar that grows rule by rule. It can be written in XGrammar's EBNF.
 *
 * The version that we use makes one automaton of each rule, copies simple rules into others, and then merges states that
 * are reached by equal steps from one state. That merging is wrong: of an enum's labels with common beginnings it makes a
 * grammar that also takes mixtures of them (github.com/mlc-ai/xgrammar/pull/632 and pull/911, in no release for
 * JavaScript). So no rule here has two equal steps out of one state: each option and each loop that something follows is a
 * rule of its own, sealed so that it stays one.
 */
export class Ebnf {
  readonly #rules: (string | null)[] = []
  readonly #expressions = new Map<Reference, Expression>()
  readonly #names = new Map<string, Reference>()
  #size = 0

  /** A rule for an expression; the same expression gets the same rule. */
  rule(expression: Expression): Reference {
    if (expression.type === 'reference') return expression
    const body = this.#body(expression)
    const known = this.#names.get(body)
    if (known !== undefined) return known
    const reference = this.reserve()
    this.#names.set(body, reference)
    this.#expressions.set(reference, expression)
    this.#write(reference, body)
    return reference
  }

  /** A rule that is defined later, so that it can refer to itself. */
  reserve(): Reference {
    this.#rules.push(null)
    return { type: 'reference', name: `r${this.#rules.length - 1}` }
  }

  define(reference: Reference, expression: Expression): void {
    this.#expressions.set(reference, expression)
    this.#write(reference, this.#body(expression))
  }

  toRules(root: Expression): Rules {
    return { root, rules: this.#expressions }
  }

  toText(root: Expression): string {
    const rules = [`root ::= ${this.#body(root)}`, ...this.#rules.map((body, index) => `r${index} ::= ${body}`)]
    return [...rules, `${SEAL} ::= ""`].join('\n')
  }

  #write({ name }: Reference, body: string): void {
    this.#size += body.length
    if (this.#size > LARGEST_GRAMMAR) throw new GrammarSizeError('it is too large')
    this.#rules[Number(name.slice(1))] = body
  }

  #body(expression: Expression): string {
    switch (expression.type) {
      case 'terminal':
        return expression.single ? expression.text : `${expression.text} ${SEAL}`
      case 'reference':
        return expression.name
      case 'choice': {
        const options = expression.options.map((option, index) => {
          if (isEmpty(option)) return '""'
          const others = expression.options.toSpliced(index, 1)
          return begins(option, others) ? this.rule(option).name : this.#step(option)
        })
        return `${[...new Set(options)].join(' | ')} ${SEAL}`
      }
      case 'sequence': {
        if (isEmpty(expression)) return '""'
        const steps = expression.parts.map((part, index) =>
          part.type === 'repeat' && isApart(part, expression.parts[index + 1]) ? this.#loop(part) : this.#step(part),
        )
        return `${steps.join(' ')} ${SEAL}`
      }
      case 'repeat':
        return `${this.#loop(expression)} ${SEAL}`
    }
  }

  #step(expression: Expression): string {
    return expression.type === 'terminal' ? expression.text : this.rule(expression).name
  }

  #loop({ part, min, max }: Repeat): string {
    const step = this.#step(part)
    if (max !== null || (part.type === 'terminal' && part.single)) return `${step}${countOf(min, max)}`
    const rest = this.reserve()
    this.#write(rest, `${step} ${rest.name} | ""`)
    return min === 0 ? rest.name : `${step}${countOf(min, min)} ${rest.name}`
  }

  /** One character out of a set, in UTF-8. */
  characters(set: CodePoints): Expression {
    // A negated class takes in everything beyond ASCII. It is one step for XGrammar, where sequences of bytes are many.
    const sequences = set.flatMap(byteSequences)
    const excluded = complement(set)
    const last = excluded.at(-1)
    if (last !== undefined && last[1] <= LAST_ASCII) return { ...byteClass(excluded, '^'), sequences }
    const single = sequences.filter((bytes) => bytes.length === 1).flat()
    const longer = sequences.filter((bytes) => bytes.length > 1)
    const options = longer.map((bytes) => sequence(bytes.map((range) => byteClass([range]))))
    if (single.length > 0) options.unshift(byteClass(single))
    return options.length > INLINE_OPTIONS ? this.rule(choice(options)) : choice(options)
  }

  /** @param characters says how one character out of a set is written. */
  pattern(pattern: Pattern, characters: (set: CodePoints) => Expression): Expression {
    switch (pattern.type) {
      case 'character':
        return characters(pattern.set)
      case 'sequence':
        return sequence(pattern.parts.map((part) => this.pattern(part, characters)))
      case 'choice':
        return choice(pattern.options.map((option) => this.pattern(option, characters)))
      case 'repeat':
        return repeat(this.pattern(pattern.part, characters), pattern.min, pattern.max)
    }
  }
}

const LAST_ASCII = 0x7f
const INLINE_OPTIONS = 3

export class GrammarSizeError extends Error {}

export const EMPTY: Expression = { type: 'sequence', parts: [] }

function isEmpty(expression: Expression): boolean {
  return expression.type === 'sequence' && expression.parts.length === 0
}

/** Whether one of several options, if written out, begins as another that is. */
function begins(option: Expression, others: readonly Expression[]): boolean {
  if (option.type !== 'terminal' || option.single) return false
  return others.some((other) => other.type === 'terminal' && !areApart(option, other))
}

/** Whether what follows a loop cannot be taken for another round of it. */
function isApart({ part }: Repeat, next: Expression | undefined): boolean {
  if (part.type !== 'terminal') return false
  if (next === undefined) return true
  return next.type === 'terminal' && areApart(part, next)
}

function areApart(a: Terminal, b: Terminal): boolean {
  return a.first.every(([first, last]) => b.first.every((other) => other[1] < first || last < other[0]))
}

function countOf(min: number, max: number | null): string {
  if (max === null && min <= 1) return min === 0 ? '*' : '+'
  return min === 1 && max === 1 ? '' : `{${min},${max ?? ''}}`
}

export function literal(text: string): Expression {
  if (text === '') return EMPTY
  const escaped = [...text].map((character) =>
    /^[\x20-\x7e]$/.test(character) && character !== '"' && character !== '\\'
      ? character
      : `\\U${character.codePointAt(0)!.toString(16).padStart(8, '0')}`,
  )
  const bytes = Array.from(Buffer.from(text), (byte): ByteRange => [byte, byte])
  return { type: 'terminal', text: `"${escaped.join('')}"`, sequences: [bytes], first: [bytes[0]!], single: false }
}

/** One ASCII character of a range. */
export function range(first: string, last: string): Expression {
  return byteClass([[first.charCodeAt(0), last.charCodeAt(0)]])
}

/**
 * One byte. XGrammar reads a class as a set of bytes, whatever its documentation says of characters, except that it turns
 * a class of one member into that character: so there are always two. `xgrammar.ts` makes sure of both.
 */
export function byteClass(ranges: readonly ByteRange[], negation: '' | '^' = ''): Terminal {
  const members = ranges.map(([first, last]) => `${byte(first)}-${byte(last)}`)
  return {
    type: 'terminal',
    text: `[${negation}${(members.length === 1 ? [...members, ...members] : members).join('')}]`,
    sequences: ranges.map((range) => [range]),
    first: negation === '' ? ranges : complement([...ranges]).map(([first, last]) => [first, Math.min(last, 0xff)]),
    single: true,
  }
}

function byte(value: number): string {
  return `\\x${value.toString(16).padStart(2, '0')}`
}

export function sequence(parts: readonly Expression[]): Expression {
  const flat = parts.flatMap((part) => (part.type === 'sequence' ? part.parts : [part]))
  return flat.length === 1 ? flat[0]! : { type: 'sequence', parts: flat }
}

export function choice(options: readonly Expression[]): Expression {
  return options.length === 1 ? options[0]! : { type: 'choice', options }
}

export function optional(expression: Expression): Expression {
  return choice([EMPTY, expression])
}

/** @param max null for no end. */
export function repeat(part: Expression, min: number, max: number | null): Expression {
  if (max === 0 || isEmpty(part)) return EMPTY
  if (min === 1 && max === 1) return part
  if (min === 0 && max === 1) return optional(part)
  return { type: 'repeat', part, min, max }
}
