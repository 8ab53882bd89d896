import type { ConstrainedTag, Constraint, JsonSchemaConstraint, TagContent } from '../engine.ts'
import { characters, type Grammar, GrammarBuilder, GrammarSizeError, matching, SharedParts } from './grammar.ts'
import { jsonSchemaGrammar } from './json-schema.ts'
import { parsePattern } from './regex/anchors.ts'
import { PatternError } from './regex/parser.ts'
import { eitherGrammar, tagGrammar } from './tag-grammar.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'

const MOST_TAGS = 256

/**
 * Checks a constraint and turns it into a grammar.
 * @throws UnsupportedConstraint
 */
export function grammarOf(constraint: Constraint): Grammar {
  const shared = new SharedParts()
  if (constraint.type !== 'triggered_tags') return contentGrammar(constraint, shared)
  const { triggers, tags, atLeastOne = false, stopAfterFirst = false, otherwise } = constraint
  if (tags.length === 0 || tags.length > MOST_TAGS) throw new UnsupportedConstraint(`expected 1 to ${MOST_TAGS} tags`)
  for (const [index, { begin }] of tags.entries()) {
    if (triggers.filter((trigger) => trigger !== '' && begin.startsWith(trigger)).length !== 1) {
      throw new UnsupportedConstraint('exactly one trigger must be the beginning of the tag', ['tags', index])
    }
  }
  const structure = otherwise === undefined ? null : contentGrammar(otherwise, shared)
  const written = tags.map(({ begin, content, end }) => ({ begin, content: contentGrammar(content, shared), end }))
  if (structure !== null) return eitherGrammar(structure, written, { atLeastOne, stopAfterFirst })
  return tagGrammar(written, { triggers, atLeastOne, stopAfterFirst })
}

function contentGrammar(content: TagContent, shared: SharedParts): Grammar {
  try {
    return grammarWithin(content, shared)
  } catch (error) {
    const isLenient = content.type === 'json_schema' && content.lenient && error instanceof UnsupportedConstraint
    if (!isLenient) throw error
    return grammarWithin({ ...content, schema: ANY_OBJECT }, shared)
  }
}

/** What is left of a lenient schema of which nothing can be kept. */
const ANY_OBJECT = { type: 'object' }

function grammarWithin(content: TagContent, shared: SharedParts): Grammar {
  const builder = new GrammarBuilder(shared)
  try {
    return builder.build(
      content.type === 'regex'
        ? matching(parsePattern(content.pattern), characters)
        : jsonSchemaGrammar(content, builder),
    )
  } catch (error) {
    if (error instanceof GrammarSizeError || error instanceof PatternError)
      throw new UnsupportedConstraint(error.message)
    throw error
  }
}

/**
 * The same constraint with any object in place of each lenient schema; null when it has none. For grammars that take too
 * long to compile.
 */
export function withoutLenientSchemas(constraint: Constraint): Constraint | null {
  if (constraint.type !== 'triggered_tags' || !constraint.tags.some(isLenient)) return null
  const tags = constraint.tags.map((tag) =>
    isLenient(tag) ? { ...tag, content: { ...tag.content, schema: ANY_OBJECT } } : tag,
  )
  return { ...constraint, tags }
}

function isLenient(tag: ConstrainedTag): tag is ConstrainedTag & { readonly content: JsonSchemaConstraint } {
  return tag.content.type === 'json_schema' && tag.content.lenient === true
}
