import { PatternError, parsePattern } from '../../../regex/parser.ts'
import type { ConstrainedTag, Constraint, TagContent } from '../../engine.ts'
import { Ebnf, type Expression, GrammarSizeError } from './ebnf.ts'
import { jsonSchemaGrammar } from './json-schema.ts'
import { leniently } from './lenient.ts'
import { Refusal } from './refusal.ts'
import type { GrammarSource } from './xgrammar.ts'

const LONGEST_GRAMMAR = 100_000
const MOST_TAGS = 256

/**
 * Checks a constraint and turns it into what XGrammar compiles. Its own converters of schemas and patterns drop what
 * they do not know, and confuse bytes with characters: it gets to see grammars of ours only.
 * @throws Refusal
 */
export function grammarSourceOf(constraint: Constraint): GrammarSource {
  if (constraint.type !== 'triggered_tags') return { type: 'ebnf', text: ebnfOf(constraint) }
  const { triggers, tags, atLeastOne = false, stopAfterFirst = false } = constraint
  if (tags.length === 0 || tags.length > MOST_TAGS) throw new Refusal(`expected 1 to ${MOST_TAGS} tags`)
  for (const [index, { begin }] of tags.entries()) {
    if (triggers.filter((trigger) => trigger !== '' && begin.startsWith(trigger)).length !== 1) {
      throw new Refusal('exactly one trigger must be the beginning of the tag', ['tags', index])
    }
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

function ebnfOf(constraint: TagContent): string {
  if (constraint.type === 'grammar') {
    if (constraint.ebnf.length <= LONGEST_GRAMMAR) return constraint.ebnf
    throw new Refusal(`the grammar is longer than the ${LONGEST_GRAMMAR} characters that are supported`)
  }
  if (constraint.type === 'json_schema' && constraint.lenient) {
    return leniently(constraint.schema, (schema) => ebnfOf({ type: 'json_schema', schema }))
  }
  const ebnf = new Ebnf()
  try {
    return ebnf.toText(
      constraint.type === 'regex'
        ? patternGrammar(constraint.pattern, ebnf)
        : jsonSchemaGrammar(constraint.schema, ebnf),
    )
  } catch (error) {
    if (error instanceof GrammarSizeError || error instanceof PatternError) throw new Refusal(error.message)
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
    isLenient(tag) ? { ...tag, content: { type: 'json_schema' as const, schema: { type: 'object' } } } : tag,
  )
  return { ...constraint, tags }
}
