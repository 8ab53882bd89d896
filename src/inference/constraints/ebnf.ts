import { getOrMake } from '../../lib/get-or-make.ts'
import type { Choice, Expression, Grammar, Reference, Repeat } from './grammar.ts'
import { type CodePoints, difference, intersection, union } from './regex/code-points.ts'

/** Halves of UTF-16 pairs; `REPLACEMENT` replaces them in UTF-8. */
const SURROGATES: CodePoints = [[0xd800, 0xdfff]]
const REPLACEMENT: CodePoints = [[0xfffd, 0xfffd]]

/**
 * For sets with characters that are written as more than one, as in JSON strings. XGrammar 0.2.8 follows
 * `[a-z]{0,2000}` at the cost of a table, but tries much of the vocabulary at each token of `([a-z] | "\\n"){0,2000}`.
 * It splits counts from 128 on in two and follows both.
 */
const LARGEST_COUNT = 127

export interface Ebnf {
  readonly text: string
  /**
   * False when a count was left out. The text then also allows strings that are longer than the grammar allows, or
   * shorter if it requires more than 127 characters: the caller must check the reply.
   */
  readonly exact: boolean
}

/**
 * The grammar in the EBNF of XGrammar 0.2, which vLLM takes as `structured_outputs.grammar`. It lets the same texts of
 * UTF-8 through. Parts that no text can complete are left out, as `Automaton` passes them over; a grammar that no text
 * at all completes is written as it is.
 *
 * @param counted false to leave out all counts above 1, for a grammar that can be read in many ways: XGrammar follows each of
 * them.
 *
 * The rule `root` comes first: vLLM takes a text for Lark until it finds `::=`.
 */
export function toEbnf({ root, rules }: Grammar, { counted = true }: { readonly counted?: boolean } = {}): Ebnf {
  const finite = new Set<Reference>()
  // Bottom-up: a rule is known to end only if its parts are known to. Rules that were defined later refer to earlier
  // ones.
  for (let found = -1; found < finite.size; ) {
    found = finite.size
    for (const [reference, body] of rules) if (canEnd(body)) finite.add(reference)
  }
  const keepsEndless = !canEnd(root)
  let exact = true
  /** In the order in which they are written. */
  const names = new Map<Reference, string>()
  const lines = [`root ::= ${optionsIn(root)}`]
  // The loop adds entries to the Map.
  for (const [reference, name] of names) lines.push(`${name} ::= ${optionsIn(bodyOf(reference))}`)
  return { text: lines.join('\n'), exact }

  function bodyOf(reference: Reference): Expression {
    const body = rules.get(reference)
    if (body === undefined) throw new Error('A rule of a grammar is not defined.')
    return body
  }

  /** Whether a finite text completes the expression. */
  function canEnd(expression: Expression): boolean {
    switch (expression.type) {
      case 'literal':
        return true
      case 'characters':
        return expression.set.length > 0
      case 'reference':
        return finite.has(expression)
      case 'sequence':
        return expression.parts.every((part) => canEnd(part))
      case 'choice':
        return expression.options.some((option) => canEnd(option))
      case 'repeat':
        return expression.min === 0 || canEnd(expression.part)
    }
  }

  /** Where `|` is allowed. */
  function optionsIn(expression: Expression): string {
    if (expression.type !== 'choice') return sequenceOf(expression)
    const options = optionsOf(expression).map((option) => sequenceOf(option))
    return options.length === 0 ? NOTHING : [...new Set(options)].join(' | ')
  }

  function optionsOf({ options }: Choice): readonly Expression[] {
    const kept = keepsEndless ? options : options.filter((option) => canEnd(option))
    return kept.flatMap((option) => (option.type === 'choice' ? optionsOf(option) : [option]))
  }

  function sequenceOf(expression: Expression): string {
    if (expression.type !== 'sequence') return elementOf(expression)
    return expression.parts.length === 0 ? '""' : expression.parts.map((part) => elementOf(part)).join(' ')
  }

  /** What a count may follow. */
  function elementOf(expression: Expression): string {
    switch (expression.type) {
      case 'literal':
        return `"${Array.from(expression.text.toWellFormed(), inText).join('')}"`
      case 'characters':
        return classOf(expression.set)
      case 'reference':
        return nameOf(expression)
      case 'sequence':
      case 'choice':
        return `(${optionsIn(expression)})`
      case 'repeat':
        return repeatOf(expression)
    }
  }

  function repeatOf(repeat: Repeat): string {
    const { part, min, max } = counted ? repeat : uncounted(repeat)
    if (!keepsEndless && !canEnd(part)) return '""'
    const set = part.type === 'choice' ? part.options.find(({ type }) => type === 'characters') : undefined
    if (part.type !== 'choice' || set === undefined) {
      return (part.type === 'repeat' ? `(${elementOf(part)})` : elementOf(part)) + countOf(min, max)
    }
    if (max !== null && max <= LARGEST_COUNT) return elementOf(part) + countOf(min, max)
    exact &&= max === null && min <= LARGEST_COUNT
    // XGrammar builds a table for a loop over a class, but not for a repeated choice.
    const loop = `${elementOf(set)}*`
    const others = elementOf({ type: 'choice', options: part.options.filter((option) => option !== set) })
    const endless = `${loop} (${others} ${loop})*`
    const least = Math.min(min, LARGEST_COUNT)
    return least === 0 ? `(${endless})` : `(${elementOf(part)}${countOf(least, least)} ${endless})`
  }

  function uncounted(repeat: Repeat): Repeat {
    const isOptional = repeat.max === 1
    if (isOptional || (repeat.max === null && repeat.min <= 1)) return repeat
    exact = false
    return { ...repeat, min: Math.min(repeat.min, 1), max: null }
  }

  function nameOf(reference: Reference): string {
    return getOrMake(names, reference, () => `r${names.size + 1}`)
  }
}

/** A class that no character is in. */
const NOTHING = '[]'

/** Not negated: XGrammar reads nothing beyond ASCII in negated classes, and would allow surrogates. */
function classOf(set: CodePoints): string {
  const replaced = intersection(set, SURROGATES).length === 0 ? set : union(difference(set, SURROGATES), REPLACEMENT)
  const ranges = replaced.map(([first, last]) =>
    first === last ? inClass(first) : `${inClass(first)}-${inClass(last)}`,
  )
  return `[${ranges.join('')}]`
}

function inClass(code: number): string {
  const character = String.fromCodePoint(code)
  return /[!-,./-Z_-~]/.test(character) ? character : escapeOf(code)
}

function inText(character: string): string {
  if (character === '"' || character === '\\') return `\\${character}`
  return /[ -~]/.test(character) ? character : escapeOf(character.codePointAt(0)!)
}

/** `\x` consumes as many digits as follow. */
function escapeOf(code: number): string {
  const digits = code.toString(16)
  return code > 0xffff ? `\\U${digits.padStart(8, '0')}` : `\\u${digits.padStart(4, '0')}`
}

function countOf(min: number, max: number | null): string {
  if (max === null && min <= 1) return min === 0 ? '*' : '+'
  return min === max ? `{${min}}` : `{${min},${max ?? ''}}`
}
