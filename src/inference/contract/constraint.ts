/**
 * The form that a completion's text must have. It decides which tokens may come next and when the completion may end.
 * It applies from the first token, or from the first token after the thought. Control tokens never match it.
 */
export type Constraint = (TagContent | TriggeredTagsConstraint) & {
  /** Request parameter that errors about this constraint name; a position within it may follow. */
  readonly param?: string
  /**
   * Whether the reader of the text accepts other forms too. An engine that cannot hold its model to the constraint then
   * gives free text instead of an error.
   */
  readonly advisory?: boolean
}

/** A constraint on a whole text or on the content of a tag. */
export type TagContent = JsonSchemaConstraint | RegexConstraint | SequenceConstraint | TagListConstraint

/** A value that satisfies the schema, written as JSON unless `notation` says otherwise. */
export interface JsonSchemaConstraint {
  readonly type: 'json_schema'
  readonly schema: unknown
  /** Whether keywords that are not supported are ignored; by default they are an error. */
  readonly lenient?: boolean
  /** How the text is written, where that differs from JSON. */
  readonly notation?: Notation
}

/** A way to write values that differs from JSON. String lengths are not enforced in it. */
export interface Notation {
  /** Texts that no string may contain, because they would end the string or what surrounds it. */
  readonly without: readonly string[]
  /**
   * Delimits strings in place of `"`; nothing in them is escaped. Keys are written without it where possible, and only
   * `,` and `:` separate the parts of objects and arrays, without blanks.
   */
  readonly quote?: string
  /**
   * Given when the whole value is an object that is written as a list of members. Each member is `begin`, its name,
   * `between`, its value and `end`. A value that may be a string is its bare text; see `memberTypes`. `betweenJson`
   * stands in place of `between` before a value that is no string, where the notation tells them apart.
   */
  readonly member?: {
    readonly begin: string
    readonly between: string
    readonly betweenJson?: string
    readonly end: string
  }
  /**
   * Given when the whole value is an object that is written as keyword arguments of Python, such as `x=1, y="text"`. Words
   * and strings in it are Python's.
   */
  readonly keywords?: true
}

/** A text that the pattern matches from start to end. See `constraints/regex/parser.ts` for the dialect. */
export interface RegexConstraint {
  readonly type: 'regex'
  readonly pattern: string
}

/** Texts, and values that follow constraints, one after the other. */
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
  /** In place of free text: the whole text is either this, or tags with nothing but white space between them. */
  readonly otherwise?: TagContent
}

export interface ConstrainedTag {
  readonly begin: string
  readonly content: TagContent
  readonly end: string
}

/** The JSON schemas that a constraint consists of, possibly with duplicates. */
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
