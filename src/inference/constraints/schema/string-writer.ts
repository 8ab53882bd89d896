import type { Expression } from '../grammar.ts'
import { StringTexts } from '../string-texts.ts'
import { Unsatisfiable, UnsupportedConstraint } from '../unsupported-constraint.ts'
import type { Plain, Source } from './schema-conjunction.ts'
import type { Place, SchemaContext } from './schema-context.ts'

/** Longer strings are not supported as a minimum, and are not written if the length is bounded. */
const LONGEST_STRING = 10_000
const NO_BOUNDS: NonNullable<Plain['bounds']> = {}

/** Writes the strings of a schema. */
export class StringWriter {
  readonly #context: SchemaContext
  readonly #strings = new StringTexts()

  constructor(context: SchemaContext) {
    this.#context = context
  }

  /** Null where no string is allowed. */
  write(plain: Plain, place: Place): Expression | null {
    const { bounds = {}, where = {}, patterns = [], notPatterns = [], formats = [], excluded = [] } = plain
    const { minLength = 0, maxLength } = bounds
    const text = this.#context.text(place)
    if (minLength > LONGEST_STRING) {
      this.#context.refuse(`${minLength} is more than the ${LONGEST_STRING} that are supported`, where.minLength ?? [])
      return text.string(0, null)
    }
    if (maxLength !== undefined && maxLength < minLength && !this.#context.isLenient)
      return this.#context.nothing("'maxLength' is less than 'minLength'", where.maxLength ?? [])
    const keywords = {
      patterns: patterns.map(({ value }) => value),
      notPatterns: notPatterns.map(({ value }) => value),
      formats: formats.map(({ value }) => value),
      minLength,
      maxLength: maxLength === undefined ? null : Math.min(maxLength, LONGEST_STRING),
      excluded: excluded.filter((value) => typeof value === 'string'),
    }
    let keyword: string
    try {
      return this.#strings.write(keywords, text, [])
    } catch (error) {
      if (!(error instanceof UnsupportedConstraint)) throw error
      keyword = String(error.path.at(-1))
      const sources: Readonly<Record<string, readonly Source<string>[]>> = {
        pattern: patterns,
        not: notPatterns,
        format: formats,
      }
      // A forbidden constant has no path of its own.
      const source = sources[keyword]?.at(-1) ?? (keyword === 'not' ? [...formats, ...patterns].at(-1) : undefined)
      const path = source?.path ?? where[keyword] ?? []
      if (error instanceof Unsatisfiable && !this.#context.isLenient) return this.#context.nothing(error.message, path)
      this.#context.refuse(error.message, path)
    }
    // Only the first of several patterns or formats is kept.
    const kept = { ...plain, patterns, formats }
    switch (keyword) {
      case 'pattern':
        return this.write({ ...kept, patterns: patterns.slice(0, -1) }, place)
      case 'format':
        return this.write({ ...kept, formats: formats.slice(0, -1) }, place)
      case 'not':
        return this.write({ bounds, where, patterns, formats }, place)
      default:
        return bounds === NO_BOUNDS ? text.string(0, null) : this.write({ ...kept, bounds: NO_BOUNDS }, place)
    }
  }
}
