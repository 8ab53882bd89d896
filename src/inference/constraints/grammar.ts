import { getOrMake } from '../../lib/get-or-make.ts'
import type { CodePoints } from './regex/code-points.ts'
import type { Pattern } from './regex/pattern.ts'

/** What a grammar matches. Made by the functions below. */
export type Expression = Literal | Characters | Reference | Sequence | Choice | Repeat

/** A fixed text, which is not empty. */
interface Literal {
  readonly type: 'literal'
  readonly text: string
}

/** One character from a set. */
interface Characters {
  readonly type: 'characters'
  readonly set: CodePoints
}

/** A reference to a rule; each rule has exactly one reference object. */
export interface Reference {
  readonly type: 'reference'
  readonly id: number
}

/** The empty text if it has no parts. */
interface Sequence {
  readonly type: 'sequence'
  readonly parts: readonly Expression[]
}

/** Matches nothing if it has no options. */
export interface Choice {
  readonly type: 'choice'
  readonly options: readonly Expression[]
}

export interface Repeat {
  readonly type: 'repeat'
  readonly part: Expression
  readonly min: number
  /** Null for no end. */
  readonly max: number | null
}

export interface Grammar {
  readonly root: Expression
  readonly rules: ReadonlyMap<Reference, Expression>
}

/** Maximum size, in characters of a compact notation of its rules. */
const LARGEST_GRAMMAR = 400_000

export class GrammarSizeError extends Error {}

/** Parts shared by the grammars of one constraint. */
export class SharedParts {
  readonly parts = new Map<string, Grammar>()
  lastId = 0
}

/** A grammar that grows rule by rule. */
export class GrammarBuilder {
  readonly #shared: SharedParts
  readonly #rules = new Map<Reference, Expression>()
  readonly #byBody = new Map<string, Reference>()
  #size = 0

  constructor(shared = new SharedParts()) {
    this.#shared = shared
  }

  /** A rule for an expression; equal expressions share a rule. */
  rule(expression: Expression): Reference {
    if (expression.type === 'reference') return expression
    const body = write(expression)
    const known = this.#byBody.get(body)
    if (known !== undefined) return known
    this.#grow(body)
    const reference = this.reserve()
    this.#byBody.set(body, reference)
    this.#rules.set(reference, expression)
    return reference
  }

  /** Reserves a rule that is defined later, so that it can refer to itself. */
  reserve(): Reference {
    return { type: 'reference', id: ++this.#shared.lastId }
  }

  define(reference: Reference, expression: Expression): void {
    this.#grow(write(expression))
    this.#rules.set(reference, expression)
  }

  /** A part that is written only once for all grammars of the constraint. */
  part(key: string, write: (builder: GrammarBuilder) => Expression): Expression {
    const part = getOrMake(this.#shared.parts, key, () => {
      const builder = new GrammarBuilder(this.#shared)
      return builder.build(write(builder))
    })
    for (const [reference, expression] of part.rules) this.#rules.set(reference, expression)
    return part.root
  }

  build(root: Expression): Grammar {
    return { root, rules: this.#rules }
  }

  #grow(body: string): void {
    this.#size += body.length
    if (this.#size > LARGEST_GRAMMAR) throw new GrammarSizeError('it is too large')
  }
}

/** The same text for equal expressions of one grammar, and different texts for others. */
function write(expression: Expression): string {
  switch (expression.type) {
    case 'literal':
      return JSON.stringify(expression.text)
    case 'characters':
      return `[${expression.set.join(' ')}]`
    case 'reference':
      return `r${expression.id}`
    case 'sequence':
      return `(${expression.parts.map(write).join(' ')})`
    case 'choice':
      return `(${expression.options.map(write).join('|')})`
    case 'repeat':
      return `${write(expression.part)}{${expression.min},${expression.max ?? ''}}`
  }
}

export const EMPTY: Expression = { type: 'sequence', parts: [] }

function isEmpty(expression: Expression): boolean {
  return expression.type === 'sequence' && expression.parts.length === 0
}

export function literal(text: string): Expression {
  return text === '' ? EMPTY : { type: 'literal', text }
}

export function characters(set: CodePoints): Expression {
  return { type: 'characters', set }
}

/** One character of a range. */
export function range(first: string, last: string): Expression {
  return characters([[first.codePointAt(0)!, last.codePointAt(0)!]])
}

export function sequence(parts: readonly Expression[]): Expression {
  const flat = parts.flatMap((part) => (part.type === 'sequence' ? part.parts : [part]))
  return flat.length === 1 ? flat[0]! : { type: 'sequence', parts: flat }
}

export function choice(options: readonly Expression[]): Expression {
  return options.length === 1 ? options[0]! : { type: 'choice', options }
}

/** A choice of the options that are not null; null if all are. */
export function choiceOrNull(options: readonly (Expression | null)[]): Expression | null {
  const possible = options.filter((option) => option !== null)
  return possible.length === 0 ? null : choice(possible)
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

/**
 * The texts that a pattern matches.
 * @param charactersOf how one character from a set is written.
 */
export function matching(pattern: Pattern, charactersOf: (set: CodePoints) => Expression): Expression {
  const inner = (part: Pattern) => matching(part, charactersOf)
  switch (pattern.type) {
    case 'character':
      return charactersOf(pattern.set)
    case 'sequence':
      return sequence(pattern.parts.map(inner))
    case 'choice':
      return choice(pattern.options.map(inner))
    case 'repeat':
      return repeat(inner(pattern.part), pattern.min, pattern.max)
  }
}
