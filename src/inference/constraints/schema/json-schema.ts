import { LONGEST_SCHEMA } from '../../../lib/json-depth.ts'
import type { Notation } from '../../contract/constraint.ts'
import {
  choice,
  choiceOrNull,
  EMPTY,
  type Expression,
  type GrammarBuilder,
  literal,
  optional,
  type Reference,
  sequence,
} from '../grammar.ts'
import { type Member, memberSequence } from '../member-sequence.ts'
import { numbersOf } from '../numbers.ts'
import { StringTexts } from '../string-texts.ts'
import { Unsatisfiable, UnsupportedConstraint } from '../unsupported-constraint.ts'
import { JSON_STYLE, NAME, PYTHON_STYLE, ValueText } from '../value-text.ts'
import type { Refuse } from './keyword-reader.ts'
import {
  type Conjunction,
  impliedTypes,
  isIn,
  isObject,
  itemParts,
  type Part,
  type Path,
  type Plain,
  type Source,
  TYPES,
  together,
  typeOf,
} from './schema-conjunction.ts'
import { partOfRoot, SchemaOptions } from './schema-options.ts'
import { memberTypes, type ValueTypes } from './value-types.ts'

const DEEPEST_NESTING = 40
const MOST_SCHEMAS = 2_000
const MOST_ITEMS = 1_000
/** A longer string is not asked for, nor written where its length is bounded. */
const LONGEST_STRING = 10_000

/**
 * How a value stands: as the notation has it, as the members or keywords of the outermost object, as a string without
 * quotes or null, or as a string without quotes.
 */
type Form = 'plain' | 'members' | 'keywords' | 'bare' | 'text'

/** What can be written so; anything where nothing is said. */
const WRITABLE: Readonly<Partial<Record<Form, readonly string[]>>> = {
  members: ['object'],
  keywords: ['object'],
  bare: ['string', 'null'],
  text: ['string'],
}

/** A name that can stand before `=` in a call. */
const KEYWORD = /^[^\s=,()[\]{}'"]+$/

interface Place {
  readonly depth: number
  readonly form: Form
}

const NO_BOUNDS: NonNullable<Plain['bounds']> = {}

interface SchemaOfGrammar {
  readonly schema: unknown
  readonly notation?: Notation
  /** Whether what cannot be kept is left out. A schema of which nothing can be kept then stands for any object. */
  readonly lenient?: boolean
}

/**
 * Writes a JSON schema as a grammar. A keyword that the grammar cannot keep is refused, and one that JSON Schema does not
 * know has no effect. What the grammar does keep may be narrower than the schema: one way to write each value, properties
 * in the order of the schema and none that it does not describe, unless it names none.
 * @throws UnsupportedConstraint naming the keyword at fault.
 */
export function jsonSchemaGrammar(
  { schema, notation, lenient = false }: SchemaOfGrammar,
  builder: GrammarBuilder,
): Expression {
  const size = JSON.stringify(schema)?.length ?? 0
  if (size > LONGEST_SCHEMA)
    throw new UnsupportedConstraint(`the schema has ${size} characters, at most ${LONGEST_SCHEMA} are supported`)
  return new SchemaWriter(schema, builder, lenient, notation).write()
}

class SchemaWriter {
  readonly #root: Part
  readonly #options: SchemaOptions
  readonly #builder: GrammarBuilder
  readonly #isLenient: boolean
  readonly #plain: ValueText
  readonly #bare: ValueText
  readonly #member: Notation['member']
  readonly #outermost: Form
  readonly #typesOfMember: (name: string) => ValueTypes
  /** What is written, or is being written: then with the rule that it has come to need. Null where nothing is allowed. */
  readonly #places = new Map<string, { rule: Reference | null; written?: Expression | null }>()
  readonly #strings = new StringTexts()
  #left = MOST_SCHEMAS

  constructor(root: unknown, builder: GrammarBuilder, isLenient: boolean, notation: Partial<Notation> = {}) {
    const { quote, without = [], member, keywords = false } = notation
    this.#root = partOfRoot(root)
    this.#isLenient = isLenient
    this.#options = new SchemaOptions(root, this.#refuse, isLenient)
    this.#builder = builder
    const base = keywords ? PYTHON_STYLE : JSON_STYLE
    const style = { ...base, ...(quote === undefined ? {} : { comma: ',', colon: ':' }), without }
    this.#plain = new ValueText({ ...style, quote: quote ?? null }, builder)
    this.#bare = new ValueText({ ...style, quote: '' }, builder)
    this.#member = member
    this.#outermost = keywords ? 'keywords' : member === undefined ? 'plain' : 'members'
    this.#typesOfMember = member === undefined ? () => null : memberTypes(root)
  }

  write(): Expression {
    const place = { depth: 0, form: this.#outermost }
    const root = this.#place(this.#isLenient ? [this.#root, ANY_OBJECT] : [this.#root], place)
    if (root === null) throw this.#options.nothing ?? new UnsupportedConstraint('the schema allows nothing')
    return root
  }

  readonly #refuse: Refuse = (message, path) => {
    if (!this.#isLenient) throw new UnsupportedConstraint(message, path)
  }

  /** Notes why nothing is allowed. */
  #nothing(message: string, path: Path): null {
    this.#options.nothing = new UnsupportedConstraint(message, path)
    return null
  }

  #text({ form }: Place): ValueText {
    return form === 'bare' || form === 'text' ? this.#bare : this.#plain
  }

  /** Null where no value satisfies all of the parts. */
  #place(parts: Conjunction, place: Place): Expression | null {
    const key = `${place.form} ${this.#options.keyOf(parts)}`
    const known = this.#places.get(key)
    if (known !== undefined) {
      if (known.written !== undefined) return known.written
      // Only from within an object or an array does it come back to itself.
      known.rule ??= this.#builder.reserve()
      return known.rule
    }
    if (--this.#left < 0) throw new UnsupportedConstraint(`more than ${MOST_SCHEMAS} schemas are not supported`)
    if (place.depth > DEEPEST_NESTING) {
      throw new UnsupportedConstraint(`schemas nested deeper than ${DEEPEST_NESTING} are not supported`, parts[0]?.path)
    }
    const entry: { rule: Reference | null; written?: Expression | null } = { rule: null }
    this.#places.set(key, entry)
    const isForbidden = parts.some(({ schema, negated }) => schema === negated)
    const written = isForbidden ? this.#forbidden(parts) : this.#written(this.#options.of(parts), place)
    if (entry.rule !== null) this.#builder.define(entry.rule, written ?? choice([]))
    entry.written = written === null ? null : (entry.rule ?? written)
    return entry.written
  }

  #forbidden(parts: Conjunction): null {
    const path = parts.find(({ schema, negated }) => schema === negated)!.path
    return this.#nothing('the schema false allows nothing', path)
  }

  #written(all: readonly Plain[], place: Place): Expression | null {
    const satisfiable = this.#isLenient ? all.filter((plain) => this.#options.isSatisfiable(plain)) : all
    const options = satisfiable.length > 0 ? satisfiable : all
    const written = choiceOrNull([...new Set(options.map((plain) => this.#option(plain, place)))])
    if (written !== null || !this.#isLenient) return written
    // Constants and types come first in what models read.
    const [{ enum: values = undefined, types = undefined } = {}] = options
    if (values !== undefined) return this.#constants(values, {}, place)
    // Arguments are an object, even where nothing satisfies their schema.
    const fallback = types ?? (place.depth === 0 ? ['object'] : undefined)
    return this.#option(fallback === undefined ? {} : { types: fallback }, place)
  }

  #option(plain: Plain, place: Place): Expression | null {
    if (plain.enum !== undefined) {
      const values = plain.enum.filter((value) => this.#options.fits(value, plain))
      if (values.length > 0) return this.#constants(values, plain, place)
      return this.#nothing("no value of 'enum' is allowed beside it", plain.where?.enum ?? plain.where?.const ?? [])
    }
    const implied = impliedTypes(plain)
    const isFree = plain.excluded === undefined && implied.length === 0
    if (plain.types === undefined && isFree) {
      if (place.form === 'text') return this.#bare.string(0, null)
      return isObjectOnly(place) ? this.#object({}, place) : this.#text(place).any()
    }
    const types = plain.types ?? (implied.length > 0 ? implied : TYPES.filter((type) => type !== 'integer'))
    const writable = types.filter((type) => WRITABLE[place.form]?.includes(type) ?? true)
    if (writable.length === 0 && isObjectOnly(place))
      this.#nothing('only objects can be written in this notation', plain.where?.type ?? [])
    return choiceOrNull(writable.map((type) => this.#ofType(type, plain, place)))
  }

  #constants(values: readonly unknown[], { where }: Plain, place: Place): Expression | null {
    const text = isObjectOnly(place) ? null : this.#text(place)
    const writable = values.filter((value) => WRITABLE[place.form]?.includes(typeOf(value)) ?? true)
    // Another alternative may be a string.
    if ((place.form === 'bare' || place.form === 'text') && writable.length === 0) return null
    const written = choiceOrNull(writable.map((value) => text?.constant(value) ?? null))
    if (written !== null) return this.#builder.rule(written)
    return this.#nothing('no value can be written in this notation', where?.enum ?? where?.const ?? [])
  }

  #ofType(type: string, plain: Plain, place: Place): Expression | null {
    const excluded = plain.excluded?.filter((value) => typeOf(value) === (type === 'integer' ? 'number' : type)) ?? []
    switch (type) {
      case 'object':
      case 'array': {
        const isEmpty = (value: unknown) => Object.keys(value as object).length === 0
        if (excluded.some((value) => !isEmpty(value)))
          return this.#isLenient ? this.#ofType(type, { ...plain, excluded: [] }, place) : null
        const least = { bounds: { [type === 'object' ? 'minProperties' : 'minItems']: 1 } }
        const filled = excluded.length === 0 ? plain : together(plain, least)
        if (filled === null) return null
        return type === 'object' ? this.#object(filled, place) : this.#array(filled, place)
      }
      case 'string':
        return this.#string({ ...plain, excluded }, place)
      case 'number':
      case 'integer':
        return this.#number(type, { ...plain, excluded })
      case 'boolean': {
        const left = [true, false].filter((value) => !excluded.includes(value))
        return left.length === 0 ? null : this.#plain.booleans(left)
      }
      default:
        if (excluded.length > 0) return null
        return place.form === 'bare' ? literal('null') : this.#plain.nothing()
    }
  }

  #string(plain: Plain, place: Place): Expression | null {
    const { bounds = {}, where = {}, patterns = [], notPatterns = [], formats = [], excluded = [] } = plain
    const { minLength = 0, maxLength } = bounds
    const text = this.#text(place)
    if (minLength > LONGEST_STRING) {
      this.#refuse(`${minLength} is more than the ${LONGEST_STRING} that are supported`, where.minLength ?? [])
      return text.string(0, null)
    }
    if (maxLength !== undefined && maxLength < minLength && !this.#isLenient)
      return this.#nothing("'maxLength' is less than 'minLength'", where.maxLength ?? [])
    const keywords = {
      patterns: patterns.map(({ value }) => value),
      notPatterns: notPatterns.map(({ value }) => value),
      formats: formats.map(({ value }) => value),
      minLength,
      maxLength: maxLength === undefined ? null : Math.min(maxLength, LONGEST_STRING),
      excluded: excluded as readonly string[],
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
      // A constant that is not allowed has no path of its own.
      const source = sources[keyword]?.at(-1) ?? (keyword === 'not' ? [...formats, ...patterns].at(-1) : undefined)
      const path = source?.path ?? where[keyword] ?? []
      if (error instanceof Unsatisfiable && !this.#isLenient) return this.#nothing(error.message, path)
      this.#refuse(error.message, path)
    }
    // Of two patterns or formats the first is kept.
    const kept = { ...plain, patterns, formats }
    switch (keyword) {
      case 'pattern':
        return this.#string({ ...kept, patterns: patterns.slice(0, -1) }, place)
      case 'format':
        return this.#string({ ...kept, formats: formats.slice(0, -1) }, place)
      case 'not':
        return this.#string({ bounds, where, patterns, formats }, place)
      default:
        return bounds === NO_BOUNDS ? text.string(0, null) : this.#string({ ...kept, bounds: NO_BOUNDS }, place)
    }
  }

  #number(type: 'number' | 'integer', plain: Plain): Expression | null {
    const { bounds = {}, multiples = [], excluded = [] } = plain
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = bounds
    const range = [minimum, maximum, exclusiveMinimum, exclusiveMaximum]
    if (range.every((bound) => bound === undefined) && multiples.length === 0 && excluded.length === 0)
      return type === 'integer' ? this.#plain.integer() : this.#plain.number()
    const numbers = numbersOf(
      type,
      bounds,
      multiples.map(({ value }) => value),
      excluded as number[],
      this.#builder,
    )
    if (numbers !== null) return this.#builder.rule(numbers)
    const last = Object.keys(bounds).findLast((keyword) => keyword.endsWith('imum'))
    this.#nothing(`no ${type} is within the bounds`, plain.where?.[last ?? 'multipleOf'] ?? multiples[0]?.path ?? [])
    return this.#isLenient ? this.#number(type, {}) : null
  }

  #object(plain: Plain, place: Place): Expression | null {
    const { bounds = {}, required = [], objects = [] } = plain
    const keys = plain.names === undefined ? null : this.#finiteKeys(plain.names)
    const described = [...new Set([...objects.flatMap(({ properties }) => [...properties.keys()]), ...required])]
    const names = described.length === 0 && keys !== null ? keys : described
    const members: Member[] = []
    for (const name of names) {
      const isRequired = required.includes(name)
      const text = this.#memberText(name, plain, isRequired, place)
      if (text !== null) members.push({ text, isRequired })
      else if (isRequired && !isObjectOnly(place) && !this.#isLenient) return null
    }
    const others = keys === null ? this.#others(plain, described, members.length, place) : null
    const counts = { min: bounds.minProperties ?? 0, max: bounds.maxProperties ?? null }
    const comma = place.form === 'members' ? EMPTY : this.#plain.comma
    const list =
      memberSequence(members, others, counts, comma, this.#builder) ??
      (this.#isLenient ? memberSequence(members, others, { min: 0, max: null }, comma, this.#builder) : null)
    if (list !== null) {
      return this.#builder.rule(isObjectOnly(place) ? list : sequence([literal('{'), list, literal('}')]))
    }
    const keyword = counts.min > 0 ? 'minProperties' : 'maxProperties'
    return this.#nothing(`'${keyword}' cannot be kept beside the properties`, plain.where?.[keyword] ?? [])
  }

  /** The names that a schema of names lists; null where it does not list them. */
  #finiteKeys(names: Conjunction): readonly string[] | null {
    const options = this.#options.of(names)
    if (options.length === 0 || options.some((option) => option.enum === undefined)) return null
    const values = options.flatMap((option) => option.enum!.filter((value) => this.#options.fits(value, option)))
    return [...new Set(values)].filter((value): value is string => typeof value === 'string' && value !== '__proto__')
  }

  /** Null for a member that no value is allowed for, or whose name cannot be written among the outermost. */
  #memberText(name: string, plain: Plain, isRequired: boolean, { form, depth }: Place): Expression | null {
    const said = this.#memberParts(plain, name)
    const parts = this.#isLenient && isRequired ? said.filter(({ schema, negated }) => schema !== negated) : said
    if (!isRequired && this.#isImpossible(parts)) return null
    if (plain.names !== undefined && !this.#options.allows(name, plain.names)) {
      return this.#nothing(`'${name}' is required, but 'propertyNames' does not allow it`, plain.names[0]!.path)
    }
    if (form === 'members') {
      const { begin, between, end } = this.#member!
      const terminator = /^[^>]*>?/.exec(between)![0]
      if (name === '' || name.includes('\n') || name.includes(terminator)) return null
      const value = this.#memberValue(name, parts, depth + 1)
      return value && sequence([literal(begin + name), value, literal(end)])
    }
    const value = this.#place(parts, { form: 'plain', depth: depth + 1 })
    if (value === null) {
      const isForbidden = parts.some(({ schema }) => schema === false)
      return isForbidden && isRequired
        ? this.#nothing(`'${name}' is required, but the schema allows no such property`, plain.where?.required ?? [])
        : null
    }
    const key = form === 'keywords' ? this.#keyword(name) : this.#plain.key(name)
    if (key !== null) return sequence([key, value])
    if (form === 'keywords') return null
    throw new UnsupportedConstraint(`the name '${name}' cannot be written in this notation`, parts[0]?.path)
  }

  /** Whether no value is valid, so that only what is required is written, as well as it can be. */
  #isImpossible(parts: Conjunction): boolean {
    if (!this.#isLenient) return false
    const options = this.#options.of(parts)
    return options.length > 0 && !options.some((plain) => this.#options.isSatisfiable(plain))
  }

  /** A name before `=`, as a string where it is none of Python's. */
  #keyword(name: string): Expression | null {
    const key = KEYWORD.test(name) ? literal(name) : this.#plain.constant(name)
    return key && sequence([key, literal('=')])
  }

  #memberParts(plain: Plain, name: string): Conjunction {
    for (const { patterns } of plain.objects ?? []) {
      for (const { source, path } of patterns) {
        if (this.#options.matches(source, name) === null) this.#refuse('the pattern is not supported', path)
      }
    }
    return this.#options.memberParts(plain, name)
  }

  /** The value with what stands before it. What may be a string is text, and is read as one, or as null. */
  #memberValue(name: string, parts: Conjunction, depth: number): Expression | null {
    if (parts.some(({ schema, negated }) => schema === negated)) return null
    const types = this.#typesOfMember(name)
    const { between, betweenJson = null } = this.#member!
    const behind = (mark: string, value: Expression | null) => value && sequence([literal(mark), value])
    const valueAs = (form: Form) => this.#place(parts, { form, depth })
    if (types !== null && !types.includes('string')) return behind(betweenJson ?? between, valueAs('plain'))
    if (types === null) return behind(between, this.#bare.string(0, null))
    if (betweenJson === null) return behind(between, valueAs('bare'))
    const text = behind(between, valueAs('text'))
    return choiceOrNull([text, types.includes('null') ? behind(betweenJson, literal('null')) : null])
  }

  /**
   * One member that the schema does not name. Where it names some, others are written only if it says what they are.
   * @returns null for none.
   */
  #others(plain: Plain, described: readonly string[], written: number, { form, depth }: Place): Expression | null {
    const shapes = plain.objects ?? []
    const patterns = [...new Map(shapes.flatMap((shape) => shape.patterns.map((one) => [one.source, one]))).values()]
    const rest = shapes.flatMap(({ additional }) => additional ?? [])
    const isSaid = rest.some(({ schema, negated }) => negated || isObject(schema))
    const groups = patterns.map(({ source, path }) => ({
      matched: { value: source, path },
      parts: shapes.flatMap((shape) => {
        const own = shape.patterns.filter((one) => one.source === source).map(({ part }) => part)
        return own.length > 0 ? own : (shape.additional ?? [])
      }),
    }))
    const isOpen = isSaid || (described.length === 0 && patterns.length === 0)
    const all = isOpen ? [...groups, { matched: null, parts: rest }] : groups
    const members = all.map(({ matched, parts }) => {
      if (this.#isImpossible(parts)) return null
      if (form === 'members') {
        if (matched !== null || described.length > 0 || plain.names !== undefined) return null
        // No member is called so: the types are those of members that are not described.
        const value = this.#memberValue('', parts, depth + 1)
        const { begin, end } = this.#member!
        return value && sequence([literal(begin), NAME, value, literal(end)])
      }
      const key = this.#key(
        plain,
        described,
        patterns.map(({ source, path }) => ({ value: source, path })),
        matched,
      )
      if (key === undefined) return null
      const value = this.#place(parts, { form: 'plain', depth: depth + 1 })
      if (form === 'keywords') return key === null ? value && sequence([NAME, literal('='), value]) : null
      return value && this.#plain.freeMember(key, this.#builder.rule(value))
    })
    const some = choiceOrNull(members)
    if (some === null && written > 0) this.#options.nothing = null
    return some && this.#builder.rule(some)
  }

  /** A key other than the described names that matches only `matched` of the patterns. Null for any, undefined for none. */
  #key(
    { names }: Plain,
    described: readonly string[],
    patterns: readonly { readonly value: string; readonly path: Path }[],
    matched: { readonly value: string; readonly path: Path } | null,
  ): Expression | null | undefined {
    const notPatterns = patterns.filter(({ value }) => value !== matched?.value)
    const own: Plain = {
      types: ['string'],
      ...(matched && { patterns: [matched] }),
      ...(notPatterns.length > 0 && { notPatterns }),
      ...(described.length > 0 && { excluded: described }),
    }
    const options = names === undefined ? [{}] : this.#options.of(names)
    const keys = options.flatMap((option) => together(option, own) ?? [])
    const isAny = keys.length === 1 && Object.keys(keys[0]!).every((keyword) => ['types', 'where'].includes(keyword))
    if (isAny) return null
    if (!this.#plain.hasQuotedKeys) return undefined
    const written = keys.map((key) => (key.enum ? null : this.#ofType('string', key, { form: 'plain', depth: 0 })))
    const some = choiceOrNull(written)
    return some === null ? undefined : this.#builder.rule(some)
  }

  #array(plain: Plain, { depth }: Place): Expression | null {
    const { bounds = {}, arrays = [], contains = [] } = plain
    const length = Math.max(0, ...arrays.map(({ prefix }) => prefix.length))
    const asked = contains.flatMap(({ part, min }) => Array.from({ length: Math.min(min, MOST_ITEMS + 1) }, () => part))
    const place: Place = { form: 'plain', depth: depth + 1 }
    if (contains.some(({ max }) => max !== null) && contains.length > 1) {
      this.#refuse(
        "'maxContains' is only supported with a single 'contains'",
        plain.where?.maxContains ?? contains[0]!.part.path,
      )
    }
    const few = contains.filter(({ max }) => max !== null).map(({ part }) => ({ ...part, negated: !part.negated }))
    const isOpen = arrays.some(({ rest }) => isObject(rest?.schema)) || length === 0
    const bad = contains.find(({ min, max }) => max !== null && max < min)
    if (bad !== undefined && !this.#isLenient)
      return this.#nothing("'maxContains' is less than 'minContains'", bad.part.path)
    const min = Math.max(bounds.minItems ?? 0, asked.length)
    const most = bounds.maxItems ?? (isOpen ? null : Math.max(length, min))
    const least = bounds.minItems === undefined && length > 0 ? Math.max(min, Math.min(length, most ?? length)) : min
    if (min > MOST_ITEMS) {
      this.#refuse(
        `${min} is more than the ${MOST_ITEMS} that are supported`,
        plain.where?.minItems ?? contains[0]?.part.path ?? [],
      )
      return this.#array({ ...plain, bounds: {}, contains: [] }, { depth, form: 'plain' })
    }
    if (plain.uniqueItems) return this.#distinct(plain, least, most, place)
    // What must be contained comes first.
    const prefix: Expression[] = []
    let max = most === null ? null : Math.min(most, MOST_ITEMS)
    for (let at = 0; at < Math.max(length, asked.length); at++) {
      const contained = asked[at]
      const parts = [...itemParts(plain, at), ...(contained === undefined ? few : [contained])]
      const item = at >= min && this.#isImpossible(parts) ? null : this.#place(parts, place)
      if (item === null) {
        max = Math.min(max ?? at, at)
        break
      }
      prefix.push(this.#builder.rule(item))
    }
    const others = [...itemParts(plain, length), ...few]
    const isFull = max !== null && max <= prefix.length
    const rest = isFull || (prefix.length >= min && this.#isImpossible(others)) ? null : this.#place(others, place)
    if (rest === null) max = Math.min(max ?? prefix.length, prefix.length)
    if (least > (max ?? least) && min > (max ?? min))
      return this.#nothing(
        "'minItems' asks for items, but the schema allows none",
        plain.where?.minItems ?? plain.where?.items ?? contains[0]?.part.path ?? [],
      )
    return this.#items(prefix, rest, Math.min(least, max ?? least), max)
  }

  #items(prefix: readonly Expression[], rest: Expression | null, min: number, max: number | null): Expression {
    if (prefix.length === 0)
      return rest === null ? literal('[]') : this.#builder.rule(this.#plain.array(this.#builder.rule(rest), min, max))
    const shown = prefix.slice(0, max ?? prefix.length)
    const more =
      rest === null || max === shown.length
        ? EMPTY
        : this.#plain.moreItems(
            this.#builder.rule(rest),
            Math.max(0, min - shown.length),
            max === null ? null : max - shown.length,
          )
    const list = shown.reduceRight<Expression>((after, item, at) => {
      const here = sequence([...(at === 0 ? [] : [this.#plain.comma]), item, after])
      return this.#builder.rule(at < min ? here : optional(here))
    }, more)
    return this.#builder.rule(sequence([literal('['), list, literal(']')]))
  }

  /** Items that differ. Those that the schema lists come in its order. */
  #distinct(plain: Plain, min: number, max: number | null, place: Place): Expression | null {
    const path = plain.where?.uniqueItems ?? []
    const isPlainList =
      (plain.contains ?? []).length === 0 && (plain.arrays ?? []).every(({ prefix }) => prefix.length === 0)
    const options = this.#options.of(itemParts(plain, 0))
    const values = options.flatMap((option) => this.#valuesOf(option) ?? [undefined])
    const isListed = isPlainList && !values.includes(undefined)
    if (!isListed && (max ?? 2) > 1) {
      this.#refuse("'uniqueItems' is only supported for items that the schema lists", path)
      return this.#array({ ...plain, uniqueItems: false }, place)
    }
    if (!isListed) return this.#array({ ...plain, uniqueItems: false }, place)
    const texts = values
      .filter((value, at) => !isIn(value, values.slice(0, at)))
      .map((value) => this.#plain.constant(value))
    const members = texts.filter((text) => text !== null).map((text) => ({ text, isRequired: false }))
    const list = memberSequence(members, null, { min, max }, this.#plain.comma, this.#builder)
    if (list !== null) return this.#builder.rule(sequence([literal('['), list, literal(']')]))
    return this.#nothing("'minItems' asks for more items than can differ", plain.where?.minItems ?? path)
  }

  /** The values of an option that has only a few; null for others. */
  #valuesOf(plain: Plain): readonly unknown[] | null {
    if (plain.enum !== undefined) return plain.enum.filter((value) => this.#options.fits(value, plain))
    const { types = ['string'] } = plain
    if (types.some((type) => type !== 'boolean' && type !== 'null')) return null
    const values = [...(types.includes('boolean') ? [true, false] : []), ...(types.includes('null') ? [null] : [])]
    return values.filter((value) => this.#options.fits(value, plain))
  }
}

/** Whether a value can only be written as the outermost object. */
function isObjectOnly({ form }: Place): boolean {
  return form === 'members' || form === 'keywords'
}

const ANY_OBJECT = partOfRoot({ type: 'object' })
