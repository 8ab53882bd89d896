import type { ConstrainedTag, Constraint, TagContent } from '../contract/constraint.ts'
import {
  characters,
  type Grammar,
  GrammarBuilder,
  GrammarSizeError,
  literal,
  matching,
  SharedParts,
  sequence,
} from './grammar.ts'
import { parsePattern } from './regex/anchors.ts'
import { PatternError } from './regex/parser.ts'
import { jsonSchemaGrammar } from './schema/json-schema.ts'
import { eitherGrammar, listGrammar, tagGrammar } from './tag-grammar.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'

const MOST_TAGS = 256

type ValueConstraint = Extract<TagContent, { readonly type: 'json_schema' | 'regex' }>

/**
 * Checks a constraint and turns it into a grammar.
 * @throws UnsupportedConstraint
 */
export function grammarOf(constraint: Constraint): Grammar {
  const shared = new SharedParts()
  if (constraint.type !== 'triggered_tags') return contentGrammar(constraint, shared)
  const { triggers, tags, atLeastOne = false, stopAfterFirst = false, otherwise } = constraint
  checkCount(tags)
  for (const [index, { begin }] of tags.entries()) {
    if (triggers.filter((trigger) => trigger !== '' && begin.startsWith(trigger)).length !== 1) {
      throw new UnsupportedConstraint('exactly one trigger must be the beginning of the tag', ['tags', index])
    }
  }
  const structure = otherwise === undefined ? null : contentGrammar(otherwise, shared)
  const written = writtenTags(tags, shared)
  if (structure !== null) return eitherGrammar(structure, written, { atLeastOne, stopAfterFirst })
  return tagGrammar(written, { triggers, atLeastOne, stopAfterFirst })
}

function checkCount({ length }: readonly ConstrainedTag[]): void {
  if (length === 0 || length > MOST_TAGS) throw new UnsupportedConstraint(`expected 1 to ${MOST_TAGS} tags`)
}

function writtenTags(tags: readonly ConstrainedTag[], shared: SharedParts) {
  return tags.map(({ begin, content, end }) => ({ begin, content: contentGrammar(content, shared), end }))
}

function contentGrammar(content: TagContent, shared: SharedParts): Grammar {
  if (content.type === 'sequence') {
    const parts = content.parts.map((part) =>
      typeof part === 'string' ? { root: literal(part), rules: [] } : contentGrammar(part, shared),
    )
    return { root: sequence(parts.map(({ root }) => root)), rules: new Map(parts.flatMap(({ rules }) => [...rules])) }
  }
  if (content.type === 'tag_list') {
    checkCount(content.tags)
    return listGrammar(writtenTags(content.tags, shared), content)
  }
  try {
    return grammarWithin(content, shared)
  } catch (error) {
    const isLenient = content.type === 'json_schema' && content.lenient && error instanceof UnsupportedConstraint
    if (!isLenient) throw error
    return grammarWithin({ ...content, schema: ANY_OBJECT }, shared)
  }
}

/** Replaces a lenient schema of which nothing can be enforced. */
const ANY_OBJECT = { type: 'object' }

function grammarWithin(content: ValueConstraint, shared: SharedParts): Grammar {
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
 * The same constraint with "any object" in place of each lenient schema; null if it has none. For grammars that take
 * too long to compile.
 */
export function withoutLenientSchemas(constraint: Constraint): Constraint | null {
  if (constraint.type !== 'triggered_tags') return null
  let hasLenient = false
  const looseTag = (tag: ConstrainedTag): ConstrainedTag => ({ ...tag, content: loose(tag.content) })
  const loose = (content: TagContent): TagContent => {
    switch (content.type) {
      case 'json_schema':
        hasLenient ||= content.lenient === true
        return content.lenient ? { ...content, schema: ANY_OBJECT } : content
      case 'regex':
        return content
      case 'sequence':
        return { ...content, parts: content.parts.map((part) => (typeof part === 'string' ? part : loose(part))) }
      case 'tag_list':
        return { ...content, tags: content.tags.map(looseTag) }
    }
  }
  const tags = constraint.tags.map(looseTag)
  return hasLenient ? { ...constraint, tags } : null
}
