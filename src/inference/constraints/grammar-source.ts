import type { ConstrainedTag, Constraint, TagContent } from '../engine.ts'
import { Ebnf, type Expression, GrammarSizeError, type Rules } from './ebnf.ts'
import { jsonSchemaGrammar } from './json-schema.ts'
import { leniently } from './lenient.ts'
import { PatternError, parsePattern } from './regex/parser.ts'
import { tagRules } from './tag-rules.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'
import type { GrammarSource } from './xgrammar.ts'

const LONGEST_GRAMMAR = 100_000
const MOST_TAGS = 256

/** A grammar that `Automaton` follows. */
export type RulesSource = { readonly type: 'rules' } & Rules

/**
 * Checks a constraint and turns it into a grammar. Those with a part in XGrammar's EBNF are XGrammar's. Its own converters
 * of schemas and patterns drop what they do not know, and confuse bytes with characters: it gets to see none.
 * @throws UnsupportedConstraint
 */
export function grammarSourceOf(constraint: Constraint): RulesSource | GrammarSource {
  if (constraint.type === 'grammar') return { type: 'ebnf', text: ebnfOf(constraint) }
  if (constraint.type !== 'triggered_tags') return { type: 'rules', ...rulesOf(constraint) }
  const { triggers, tags, atLeastOne = false, stopAfterFirst = false } = constraint
  if (tags.length === 0 || tags.length > MOST_TAGS) throw new UnsupportedConstraint(`expected 1 to ${MOST_TAGS} tags`)
  for (const [index, { begin }] of tags.entries()) {
    if (triggers.filter((trigger) => trigger !== '' && begin.startsWith(trigger)).length !== 1) {
      throw new UnsupportedConstraint('exactly one trigger must be the beginning of the tag', ['tags', index])
    }
  }
  if (tags.every(({ content }) => content.type !== 'grammar')) {
    const rules = tags.map(({ begin, content, end }) => ({ begin, content: rulesOf(content), end }))
    return { type: 'rules', ...tagRules(rules, { triggers, atLeastOne, stopAfterFirst }) }
  }
  return {
    type: 'structural_tag',
    format: {
      type: 'triggered_tags',
      triggers: [...triggers],
      tags: tags.map(({ begin, content, end }) => ({
        type: 'tag',
        begin,
        content: { type: 'grammar', grammar: ebnfOf(content) },
        end,
      })),
      at_least_one: atLeastOne,
      stop_after_first: stopAfterFirst,
    },
  }
}

/** The same for XGrammar. */
export function ebnfOf(content: TagContent): string {
  if (content.type !== 'grammar') return written(content, (ebnf, root) => ebnf.toText(root))
  if (content.ebnf.length <= LONGEST_GRAMMAR) return content.ebnf
  throw new UnsupportedConstraint(`the grammar is longer than the ${LONGEST_GRAMMAR} characters that are supported`)
}

function rulesOf(content: TagContent): Rules {
  return written(content, (ebnf, root) => ebnf.toRules(root))
}

function written<Result>(content: TagContent, use: (ebnf: Ebnf, root: Expression) => Result): Result {
  if (content.type === 'json_schema' && content.lenient) {
    return leniently(content.schema, (schema) => written({ ...content, schema, lenient: false }, use))
  }
  if (content.type === 'grammar') throw new Error('A grammar in EBNF is written already.')
  const ebnf = new Ebnf()
  try {
    const root =
      content.type === 'regex'
        ? patternGrammar(content.pattern, ebnf)
        : jsonSchemaGrammar(content.schema, ebnf, content.notation)
    return use(ebnf, root)
  } catch (error) {
    if (error instanceof GrammarSizeError || error instanceof PatternError)
      throw new UnsupportedConstraint(error.message)
    throw error
  }
}

function patternGrammar(source: string, ebnf: Ebnf): Expression {
  return ebnf.pattern(parsePattern(source), (set) => ebnf.characters(set))
}

/**
 * The same constraint with any object in place of each lenient schema; null when it has none. For grammars that turn out
 * to be too much for the compiler.
 */
export function withoutLenientSchemas(constraint: Constraint): Constraint | null {
  if (constraint.type !== 'triggered_tags') return null
  const isLenient = ({ content }: ConstrainedTag) => content.type === 'json_schema' && content.lenient === true
  if (!constraint.tags.some(isLenient)) return null
  const tags = constraint.tags.map((tag) =>
    isLenient(tag) ? { ...tag, content: { ...tag.content, schema: { type: 'object' } } } : tag,
  )
  return { ...constraint, tags }
}
