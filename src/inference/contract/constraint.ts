/**
 * The form that a completion's text must have. It decides which tokens may come next and when the completion may end.
 * It applies from the first token, or from the first token after the thought. Control tokens never match it.
 */
export type Constraint = (TagContent | TriggeredTagsConstraint) & {
  /** Request parameter that errors about this constraint name, possibly followed by a path within it. */
  readonly param?: string
  /**
   * Whether the reader of the text also accepts other forms. An engine that cannot enforce the constraint then
   * generates free text instead of failing.
   */
  readonly advisory?: boolean
}

/** A constraint on a whole text or on the content of a tag. */
export type TagContent = JsonSchemaConstraint | RegexConstraint | SequenceConstraint | TagListConstraint

/** A value that satisfies the schema, written as JSON unless `notation` says otherwise. */
export interface JsonSchemaConstraint {
  readonly type: 'json_schema'
  readonly schema: unknown
  /** Whether unsupported keywords are ignored; by default they are an error. */
  readonly lenient?: boolean
  /** How the text is written, where that differs from JSON. */
  readonly notation?: Notation
}

/** A way to write values that differs from JSON. It does not enforce string lengths. */
export interface Notation {
  /** Texts that no string may contain, because they would end the string or the text around it. */
  readonly without: readonly string[]
  /**
   * Delimits strings in place of `"`; nothing in them is escaped. Keys are written without it where possible, and the
   * parts of objects and arrays are separated only by `,` and `:`, without blanks.
   */
  readonly quote?: string
  /**
   * Set if the whole value is an object that is written as a list of members. Each member is `begin`, its name,
   * `between`, its value and `end`. A value that may be a string is its bare text; see `memberTypes`. `betweenJson`
   * replaces `between` before values that are not strings, if the notation distinguishes them.
   */
  readonly member?: {
    readonly begin: string
    readonly between: string
    readonly betweenJson?: string
    readonly end: string
  }
  /**
   * Set if the whole value is an object that is written as Python keyword arguments, such as `x=1, y="text"`. Its words
   * and strings are Python's.
   */
  readonly keywords?: true
}

/** A text that the pattern matches from start to end. See `constraints/regex/parser.ts` for the dialect. */
export interface RegexConstraint {
  readonly type: 'regex'
  readonly pattern: string
}

/** A sequence of texts and constrained values. */
interface SequenceConstraint {
  readonly type: 'sequence'
  readonly parts: readonly (string | TagContent)[]
}

/** One tag or, unless `single`, several with `between` between them. */
interface TagListConstraint {
  readonly type: 'tag_list'
  readonly tags: readonly ConstrainedTag[]
  readonly between: string
  readonly single?: boolean
}

/** Free text in which every occurrence of a trigger begins one of the tags. */
export interface TriggeredTagsConstraint {
  readonly type: 'triggered_tags'
  /** Each tag's `begin` starts with exactly one of these. */
  readonly triggers: readonly string[]
  readonly tags: readonly ConstrainedTag[]
  /** The text may not end before it contains a tag. */
  readonly atLeastOne?: boolean
  /** The text ends with the first tag. */
  readonly stopAfterFirst?: boolean
  /** Replaces free text: the whole text is either this, or tags separated only by white space. */
  readonly otherwise?: TagContent
}

export interface ConstrainedTag {
  readonly begin: string
  readonly content: TagContent
  readonly end: string
}

/** The JSON schemas in a constraint, possibly with duplicates. */
export function schemasIn(constraint: Constraint | TagContent): readonly unknown[] {
  switch (constraint.type) {
    case 'json_schema':
      return [constraint.schema]
    case 'regex':
      return []
    case 'sequence':
      return constraint.parts.flatMap((part) => (typeof part === 'string' ? [] : schemasIn(part)))
    case 'tag_list':
      return constraint.tags.flatMap(({ content }) => schemasIn(content))
    case 'triggered_tags': {
      const { otherwise, tags } = constraint
      return [...(otherwise ? [otherwise] : []), ...tags.map(({ content }) => content)].flatMap(schemasIn)
    }
  }
}
