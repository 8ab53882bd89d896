import { LONGEST_SCHEMA } from '../../../lib/json/json-depth.ts'
import type { Notation } from '../../contract/constraint.ts'
import { choice, choiceOrNull, type Expression, type GrammarBuilder, literal, type Reference } from '../grammar.ts'
import { numbersOf } from '../numbers/numbers.ts'
import { UnsupportedConstraint } from '../unsupported-constraint.ts'
import { ArrayWriter } from './array-writer.ts'
import { ObjectWriter } from './object-writer.ts'
import { type Conjunction, impliedTypes, type Part, type Plain, TYPES, together, typeOf } from './schema-conjunction.ts'
import { isObjectOnly, type Place, SchemaContext, WRITABLE } from './schema-context.ts'
import { partOfRoot } from './schema-options.ts'
import { StringWriter } from './string-writer.ts'

const DEEPEST_NESTING = 40
const MOST_SCHEMAS = 2_000

interface SchemaOfGrammar {
  readonly schema: unknown
  readonly notation?: Notation
  /** Whether unsupported keywords are left out. A schema of which nothing can be enforced then matches any object. */
  readonly lenient?: boolean
}

/**
 * Writes a JSON schema as a grammar. A keyword that the grammar cannot enforce is rejected, and one that JSON Schema
 * does not define has no effect. The grammar may be narrower than the schema: it has one way to write each value, and
 * writes properties in the order of the schema. It writes no properties that the schema does not describe, unless the
 * schema names none.
 * @throws UnsupportedConstraint naming the keyword at fault.
 */
export function jsonSchemaGrammar(
  { schema, notation, lenient = false }: SchemaOfGrammar,
  builder: GrammarBuilder,
): Expression {
  const size = JSON.stringify(schema)?.length ?? 0
  if (size > LONGEST_SCHEMA)
    throw new UnsupportedConstraint(`the schema has ${size} characters, at most ${LONGEST_SCHEMA} are supported`)
  return new SchemaWriter(schema, new SchemaContext(schema, builder, lenient, notation)).write()
}

class SchemaWriter {
  readonly #context: SchemaContext
  readonly #root: Part
  readonly #strings: StringWriter
  readonly #objects: ObjectWriter
  readonly #arrays: ArrayWriter
  /**
   * What has been written, or is being written; the latter gets a rule once something refers to it. Null if nothing is
   * allowed.
   */
  readonly #places = new Map<string, { rule: Reference | null; written?: Expression | null }>()
  #left = MOST_SCHEMAS

  constructor(root: unknown, context: SchemaContext) {
    const writeValue = (parts: Conjunction, place: Place) => this.#place(parts, place)
    this.#context = context
    this.#root = partOfRoot(root)
    this.#strings = new StringWriter(context)
    this.#objects = new ObjectWriter(context, this.#strings, writeValue)
    this.#arrays = new ArrayWriter(context, writeValue)
  }

  write(): Expression {
    const place = { depth: 0, form: this.#context.outermost }
    const root = this.#place(this.#context.isLenient ? [this.#root, ANY_OBJECT] : [this.#root], place)
    if (root === null) throw this.#context.options.nothing ?? new UnsupportedConstraint('the schema allows nothing')
    return root
  }

  /** Null if no value satisfies all parts. */
  #place(parts: Conjunction, place: Place): Expression | null {
    const key = `${place.form} ${this.#context.options.keyOf(parts)}`
    const known = this.#places.get(key)
    if (known !== undefined) {
      if (known.written !== undefined) return known.written
      // Recursion always passes through an object or an array.
      known.rule ??= this.#context.builder.reserve()
      return known.rule
    }
    if (--this.#left < 0) throw new UnsupportedConstraint(`more than ${MOST_SCHEMAS} schemas are not supported`)
    if (place.depth > DEEPEST_NESTING) {
      throw new UnsupportedConstraint(`schemas nested deeper than ${DEEPEST_NESTING} are not supported`, parts[0]?.path)
    }
    const entry: { rule: Reference | null; written?: Expression | null } = { rule: null }
    this.#places.set(key, entry)
    const isForbidden = parts.some(({ schema, negated }) => schema === negated)
    const written = isForbidden ? this.#forbidden(parts) : this.#written(this.#context.options.of(parts), place)
    if (entry.rule !== null) this.#context.builder.define(entry.rule, written ?? choice([]))
    entry.written = written === null ? null : (entry.rule ?? written)
    return entry.written
  }

  #forbidden(parts: Conjunction): null {
    const path = parts.find(({ schema, negated }) => schema === negated)!.path
    return this.#context.nothing('the schema false allows nothing', path)
  }

  #written(all: readonly Plain[], place: Place): Expression | null {
    const satisfiable = this.#context.isLenient
      ? all.filter((plain) => this.#context.options.isSatisfiable(plain))
      : all
    const options = satisfiable.length > 0 ? satisfiable : all
    const written = choiceOrNull([...new Set(options.map((plain) => this.#option(plain, place)))])
    if (written !== null || !this.#context.isLenient) return written
    // Models follow constants first, then types.
    const [{ enum: values = undefined, types = undefined } = {}] = options
    if (values !== undefined) return this.#constants(values, {}, place)
    // Arguments are an object, even if nothing satisfies their schema.
    const fallback = types ?? (place.depth === 0 ? ['object'] : undefined)
    return this.#option(fallback === undefined ? {} : { types: fallback }, place)
  }

  #option(plain: Plain, place: Place): Expression | null {
    if (plain.enum !== undefined) {
      const values = plain.enum.filter((value) => this.#context.options.check.fits(value, plain))
      if (values.length > 0) return this.#constants(values, plain, place)
      const keyword = ['enum', 'const'].find((name) => plain.where?.[name] !== undefined) ?? 'enum'
      return this.#context.nothing(`no value of '${keyword}' is allowed beside it`, plain.where?.[keyword] ?? [])
    }
    const implied = impliedTypes(plain)
    const isFree = plain.excluded === undefined && implied.length === 0
    if (plain.types === undefined && isFree) {
      if (place.form === 'text') return this.#context.bare.string(0, null)
      return isObjectOnly(place) ? this.#objects.write({}, place) : this.#context.text(place).any()
    }
    const types = plain.types ?? (implied.length > 0 ? implied : TYPES.filter((type) => type !== 'integer'))
    const writable = types.filter((type) => WRITABLE[place.form]?.includes(type) ?? true)
    if (writable.length === 0 && isObjectOnly(place))
      this.#context.nothing('only objects can be written in this notation', plain.where?.type ?? [])
    return choiceOrNull(writable.map((type) => this.#ofType(type, plain, place)))
  }

  #constants(values: readonly unknown[], { where }: Plain, place: Place): Expression | null {
    const text = isObjectOnly(place) ? null : this.#context.text(place)
    const writable = values.filter((value) => WRITABLE[place.form]?.includes(typeOf(value)) ?? true)
    // Another alternative may be a string.
    if ((place.form === 'bare' || place.form === 'text') && writable.length === 0) return null
    const written = choiceOrNull(writable.map((value) => text?.constant(value) ?? null))
    if (written !== null) return this.#context.builder.rule(written)
    return this.#context.nothing('no value can be written in this notation', where?.enum ?? where?.const ?? [])
  }

  #ofType(type: string, plain: Plain, place: Place): Expression | null {
    const excluded = plain.excluded?.filter((value) => typeOf(value) === (type === 'integer' ? 'number' : type)) ?? []
    switch (type) {
      case 'object':
      case 'array': {
        const isEmpty = (value: unknown) => Object.keys(value as object).length === 0
        if (excluded.some((value) => !isEmpty(value)))
          return this.#context.isLenient ? this.#ofType(type, { ...plain, excluded: [] }, place) : null
        const least = { bounds: { [type === 'object' ? 'minProperties' : 'minItems']: 1 } }
        const filled = excluded.length === 0 ? plain : together(plain, least)
        if (filled === null) return null
        return type === 'object' ? this.#objects.write(filled, place) : this.#arrays.write(filled, place)
      }
      case 'string':
        return this.#strings.write(plain, place)
      case 'number':
      case 'integer':
        return this.#number(type, { ...plain, excluded })
      case 'boolean': {
        const left = [true, false].filter((value) => !excluded.includes(value))
        return left.length === 0 ? null : this.#context.plain.booleans(left)
      }
      default:
        if (excluded.length > 0) return null
        return place.form === 'bare' ? literal('null') : this.#context.plain.nothing()
    }
  }

  #number(type: 'number' | 'integer', plain: Plain): Expression | null {
    const { bounds = {}, multiples = [], excluded = [] } = plain
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = bounds
    const range = [minimum, maximum, exclusiveMinimum, exclusiveMaximum]
    if (range.every((bound) => bound === undefined) && multiples.length === 0 && excluded.length === 0)
      return type === 'integer' ? this.#context.plain.integer() : this.#context.plain.number()
    const numbers = numbersOf(
      type,
      bounds,
      multiples.map(({ value }) => value),
      excluded as number[],
      this.#context.builder,
    )
    if (numbers !== null) return this.#context.builder.rule(numbers)
    const last = Object.keys(bounds).findLast((keyword) => keyword.endsWith('imum'))
    this.#context.nothing(
      `no ${type} that is allowed can be written`,
      plain.where?.[last ?? 'multipleOf'] ?? multiples[0]?.path ?? [],
    )
    return this.#context.isLenient ? this.#number(type, {}) : null
  }
}

const ANY_OBJECT = partOfRoot({ type: 'object' })
