import { LONGEST_SCHEMA } from '../../lib/json-depth.ts'
import type { Notation } from '../engine.ts'
import { disjoint } from './disjoint.ts'
import { choice, EMPTY, type Expression, type GrammarBuilder, literal, optional, repeat, sequence } from './grammar.ts'
import { type Bound, integersWithin, type NumberRange, numbersWithin } from './number-range.ts'
import { isPointer, lookUp, type Target } from './references.ts'
import { StringTexts } from './string-texts.ts'
import { UnsupportedConstraint } from './unsupported-constraint.ts'
import { JSON_STYLE, NAME, ValueText } from './value-text.ts'
import { memberTypes, type ValueTypes } from './value-types.ts'

type Schema = Readonly<Record<string, unknown>>
type Path = readonly (string | number)[]

/** Say something about a schema and nothing about its values. */
const ANNOTATIONS = new Set([
  ...['title', 'description', 'default', 'example', 'examples', 'deprecated', 'readOnly', 'writeOnly'],
  ...['$schema', '$comment', '$id', '$defs', 'definitions'],
])
const KEYWORDS: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  integer: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  boolean: [],
  null: [],
}
/** At most one of them says what a value is; `type` may stand beside the first two. */
const SHAPES = ['enum', 'const', '$ref', 'anyOf', 'oneOf', 'allOf'] as const
const KNOWN = new Set([...ANNOTATIONS, ...Object.values(KEYWORDS).flat(), 'type', ...SHAPES])

const DEEPEST_NESTING = 40
const MOST_SCHEMAS = 2_000
const LONGEST_STRING = 10_000
const MOST_ITEMS = 1_000

/** How a value stands: as the notation has it, as the members of the outermost object, or as a string without quotes. */
type Form = 'plain' | 'members' | 'bare'

/** What can be written so; anything where nothing is said. */
const WRITABLE: Readonly<Partial<Record<Form, readonly string[]>>> = { members: ['object'], bare: ['string', 'null'] }

/** What the conversion of one schema needs to know of where it stands. */
interface Place {
  readonly path: Path
  readonly depth: number
  readonly form: Form
  /** References that led here without a character between: coming back to one of them would never end. */
  readonly open: ReadonlySet<string>
}

/**
 * Writes a JSON schema as a grammar. What the grammar cannot keep is refused, so nothing in the schema is passed over
 * in silence; what it does keep may be narrower than the schema: one way to write each value, properties in the order
 * of the schema and none that it does not name, unless it describes them.
 * @throws UnsupportedConstraint naming the keyword at fault.
 */
export function jsonSchemaGrammar(schema: unknown, builder: GrammarBuilder, notation?: Notation): Expression {
  const size = JSON.stringify(schema)?.length ?? 0
  if (size > LONGEST_SCHEMA)
    throw new UnsupportedConstraint(`the schema has ${size} characters, at most ${LONGEST_SCHEMA} are supported`)
  return new SchemaWriter(schema, builder, notation).write()
}

class SchemaWriter {
  readonly #root: unknown
  readonly #builder: GrammarBuilder
  readonly #plain: ValueText
  readonly #bare: ValueText
  readonly #member: Notation['member']
  readonly #typesOfMember: (name: string) => ValueTypes
  readonly #references = new Map<string, Expression>()
  readonly #strings = new StringTexts()
  #schemas = 0

  constructor(root: unknown, builder: GrammarBuilder, { quote, without = [], member }: Partial<Notation> = {}) {
    this.#root = root
    this.#builder = builder
    const separators = quote === undefined ? JSON_STYLE : { comma: ',', colon: ':' }
    this.#plain = new ValueText({ ...separators, quote: quote ?? null, without }, builder)
    this.#bare = new ValueText({ ...separators, quote: '', without }, builder)
    this.#member = member
    this.#typesOfMember = memberTypes(root)
  }

  write(): Expression {
    const form = this.#member === undefined ? 'plain' : 'members'
    return this.#value(this.#root, { path: [], depth: 0, form, open: new Set() })
  }

  #text({ form }: Place): ValueText {
    return form === 'bare' ? this.#bare : this.#plain
  }

  #value(schema: unknown, place: Place): Expression {
    if (++this.#schemas > MOST_SCHEMAS)
      throw new UnsupportedConstraint(`more than ${MOST_SCHEMAS} schemas are not supported`)
    if (place.depth > DEEPEST_NESTING) {
      throw new UnsupportedConstraint(`schemas nested deeper than ${DEEPEST_NESTING} are not supported`, place.path)
    }
    if (schema === true) return this.#any(place)
    if (schema === false) throw new UnsupportedConstraint('the schema false allows nothing', place.path)
    if (!isObject(schema)) throw new UnsupportedConstraint(`expected a schema, got ${typeName(schema)}`, place.path)
    this.#checkKeywords(schema, place)
    const shapes = SHAPES.filter((keyword) => schema[keyword] !== undefined)
    const [shape] = shapes
    if (shape === undefined) return this.#typed(schema, place)
    const beside = Object.keys(schema).find(
      (key) => key !== shape && !ANNOTATIONS.has(key) && !(key === 'type' && (shape === 'enum' || shape === 'const')),
    )
    if (beside !== undefined)
      throw new UnsupportedConstraint(`'${beside}' beside '${shape}' is not supported`, [...place.path, beside])
    const at = inside(place, shape)
    switch (shape) {
      case 'enum':
        return this.#constants(listOf(schema.enum, at.path), schema, at)
      case 'const':
        return this.#constants([schema.const], schema, at)
      case '$ref':
        return this.#reference(schema.$ref, at)
      default:
        return this.#alternatives(shape, listOf(schema[shape], at.path), at)
    }
  }

  #any(place: Place): Expression {
    return place.form === 'members' ? this.#object({}, place) : this.#text(place).any()
  }

  #checkKeywords(schema: Schema, { path }: Place): void {
    for (const key of Object.keys(schema)) {
      if (!KNOWN.has(key) && !key.startsWith('x-')) {
        throw new UnsupportedConstraint(`the keyword '${key}' is not supported`, [...path, key])
      }
    }
    if (schema.$id !== undefined && path.length > 0) {
      throw new UnsupportedConstraint("'$id' is only supported at the top", [...path, '$id'])
    }
  }

  #constants(values: readonly unknown[], schema: Schema, place: Place): Expression {
    const { path } = place
    const types = schema.type === undefined ? null : typesOf(schema.type, path)
    const misfit = types === null ? -1 : values.findIndex((value) => !types.some((type) => isOfType(value, type)))
    if (misfit >= 0) {
      throw new UnsupportedConstraint(
        `the value ${JSON.stringify(values[misfit])} is not of type ${types!.join(' or ')}`,
        path,
      )
    }
    const text = place.form === 'members' ? null : this.#text(place)
    const writable = values.filter((value) => WRITABLE[place.form]?.includes(typeName(value)) ?? true)
    // Another alternative may be a string.
    if (place.form === 'bare' && writable.length === 0) return choice([])
    const written = writable.map((value) => text?.constant(value) ?? null).filter((constant) => constant !== null)
    if (written.length === 0) throw new UnsupportedConstraint('no value can be written in this notation', path)
    return this.#builder.rule(choice(written))
  }

  #reference(reference: unknown, place: Place): Expression {
    if (typeof reference !== 'string') throw new UnsupportedConstraint('expected a string', place.path)
    if (place.open.has(reference)) throw new UnsupportedConstraint(`'${reference}' refers to itself`, place.path)
    const key = `${place.form} ${reference}`
    const known = this.#references.get(key)
    if (known !== undefined) return known
    const { target, path } = resolve(this.#root, reference, place.path)
    const name = this.#builder.reserve()
    this.#references.set(key, name)
    const open = new Set([...place.open, reference])
    // Until its own rule is complete, only a reference from within an object or an array may come back to it.
    this.#builder.define(name, this.#value(target, { ...place, path, open, depth: place.depth + 1 }))
    return name
  }

  #alternatives(keyword: 'anyOf' | 'oneOf' | 'allOf', schemas: readonly unknown[], place: Place): Expression {
    if (keyword === 'allOf' && schemas.length > 1) {
      throw new UnsupportedConstraint("'allOf' is only supported with a single schema", place.path)
    }
    if (keyword === 'oneOf' && !disjoint(schemas, (reference) => resolve(this.#root, reference, place.path).target)) {
      throw new UnsupportedConstraint(
        "'oneOf' is only supported where types, constants, or a required constant property tell the schemas apart; use 'anyOf'",
        place.path,
      )
    }
    return choice(schemas.map((schema, index) => this.#value(schema, inside(place, index))))
  }

  #typed(schema: Schema, place: Place): Expression {
    const types =
      schema.type === undefined ? impliedTypes(schema, place.path) : typesOf(schema.type, [...place.path, 'type'])
    if (types === null) return this.#any(place)
    const allowed = types.flatMap((type) => KEYWORDS[type]!)
    const astray = Object.keys(schema).find(
      (key) => !allowed.includes(key) && key !== 'type' && !ANNOTATIONS.has(key) && !key.startsWith('x-'),
    )
    if (astray !== undefined) {
      throw new UnsupportedConstraint(`'${astray}' says nothing about type ${types.join(' or ')}`, [
        ...place.path,
        astray,
      ])
    }
    if (place.form === 'members' && !types.includes('object'))
      throw new UnsupportedConstraint('only objects can be written in this notation', [...place.path, 'type'])
    const writable = types.filter((type) => WRITABLE[place.form]?.includes(type) ?? true)
    return choice(writable.map((type) => this.#ofType(type, schema, place)))
  }

  #ofType(type: string, schema: Schema, place: Place): Expression {
    switch (type) {
      case 'object':
        return this.#object(schema, place)
      case 'array':
        return this.#array(schema, place)
      case 'string':
        return this.#string(schema, place)
      case 'number':
      case 'integer':
        return this.#number(type, schema, place)
      case 'boolean':
        return choice([literal('true'), literal('false')])
      default:
        return literal('null')
    }
  }

  #object(schema: Schema, place: Place): Expression {
    const { path } = place
    const required = stringsOf(schema.required, [...path, 'required'])
    const properties = schema.properties === undefined ? {} : schemasOf(schema.properties, [...path, 'properties'])
    const additional = schema.additionalProperties
    if (additional !== undefined && typeof additional !== 'boolean' && !isObject(additional)) {
      throw new UnsupportedConstraint(`expected a schema, got ${typeName(additional)}`, [
        ...path,
        'additionalProperties',
      ])
    }
    const names = new Set([...Object.keys(properties), ...required])
    if (names.has('__proto__')) {
      // Validators leave it out, and JavaScript clients would lose it.
      throw new UnsupportedConstraint("a property '__proto__' is not supported", [
        ...path,
        Object.hasOwn(properties, '__proto__') ? 'properties' : 'required',
      ])
    }
    if (names.size === 0) return this.#map(additional ?? true, place)
    if (isObject(additional) && Object.keys(properties).length > 0) {
      throw new UnsupportedConstraint("'additionalProperties' with a schema beside 'properties' is not supported", [
        ...path,
        'additionalProperties',
      ])
    }
    const members = [...names].flatMap((name): Member[] => {
      const described = Object.hasOwn(properties, name)
      if (!described && additional === false) {
        throw new UnsupportedConstraint(`'${name}' is required, but the schema allows no such property`, [
          ...path,
          'required',
        ])
      }
      const at = described ? within(place, 'properties', name) : within(place, 'additionalProperties')
      const text = this.#memberOf(name, described ? properties[name] : (additional ?? true), at, place.form)
      return text === null ? [] : [{ text, required: required.includes(name) }]
    })
    if (place.form === 'members')
      return this.#builder.rule(sequence(members.map(({ text, required }) => (required ? text : optional(text)))))
    return this.#builder.rule(sequence([literal('{'), this.#members(members), literal('}')]))
  }

  /** An object with whatever keys. */
  #map(value: unknown, place: Place): Expression {
    const at = within(place, 'additionalProperties')
    if (place.form !== 'members')
      return value === false ? literal('{}') : this.#builder.rule(this.#plain.map(this.#value(value, at)))
    if (value === false) return EMPTY
    const { begin, between, end } = this.#member!
    // No member is called so: the types are those of members that are not described.
    const written = this.#memberValue('', value, at)
    return repeat(sequence([literal(begin), NAME, literal(between), written, literal(end)]), 0, null)
  }

  /** Null for an outermost member whose name cannot be written. */
  #memberOf(name: string, schema: unknown, place: Place, form: Form): Expression | null {
    if (form === 'members') {
      const { begin, between, end } = this.#member!
      if (name === '' || [...between].some((character) => name.includes(character))) return null
      return sequence([literal(begin + name + between), this.#memberValue(name, schema, place), literal(end)])
    }
    const key = this.#plain.key(name)
    if (key === null)
      throw new UnsupportedConstraint(`the name '${name}' cannot be written in this notation`, place.path)
    return sequence([key, this.#value(schema, place)])
  }

  /** What may be a string is text, and is read as one, or as null. */
  #memberValue(name: string, schema: unknown, place: Place): Expression {
    const types = this.#typesOfMember(name)
    if (types !== null && !types.includes('string')) return this.#value(schema, place)
    return types !== null ? this.#value(schema, { ...place, form: 'bare' }) : this.#bare.string(0, null)
  }

  /** Members in their order; those that are not required may be left out. */
  #members(members: readonly Member[]): Expression {
    // From the end: what may follow a member that is written, and what may follow none.
    let after = EMPTY
    let first = EMPTY
    for (const { text, required } of members.toReversed()) {
      const start = sequence([text, after])
      first = this.#builder.rule(required ? start : choice([start, first]))
      const next = sequence([this.#plain.comma, text, after])
      after = this.#builder.rule(required ? next : choice([next, after]))
    }
    return first
  }

  #array(schema: Schema, place: Place): Expression {
    const { path } = place
    const min = countOf(schema.minItems, MOST_ITEMS, [...path, 'minItems']) ?? 0
    const max = countOf(schema.maxItems, MOST_ITEMS, [...path, 'maxItems'])
    if (max !== null && max < min)
      throw new UnsupportedConstraint("'maxItems' is less than 'minItems'", [...path, 'maxItems'])
    if (Array.isArray(schema.items)) {
      throw new UnsupportedConstraint("'items' with a list of schemas is not supported; use 'prefixItems'", [
        ...path,
        'items',
      ])
    }
    if (schema.prefixItems !== undefined) return this.#tuple(schema, min, max, place)
    if (schema.items === false) {
      if (min > 0)
        throw new UnsupportedConstraint("'minItems' asks for items, but the schema allows none", [...path, 'minItems'])
      return literal('[]')
    }
    const item = this.#value(schema.items ?? true, within(place, 'items'))
    return this.#builder.rule(this.#plain.array(this.#builder.rule(item), min, max))
  }

  /** As many items as there are schemas in `prefixItems`, neither more nor fewer. */
  #tuple(schema: Schema, min: number, max: number | null, place: Place): Expression {
    const at = [...place.path, 'prefixItems']
    const schemas = listOf(schema.prefixItems, at)
    if (isObject(schema.items)) {
      throw new UnsupportedConstraint("'items' with a schema beside 'prefixItems' is not supported", [
        ...place.path,
        'items',
      ])
    }
    if (schemas.length < min || schemas.length > (max ?? schemas.length)) {
      throw new UnsupportedConstraint(
        `only arrays of exactly the ${schemas.length} items of 'prefixItems' are supported`,
        at,
      )
    }
    const items = schemas.map((item, index) => this.#value(item, within(place, 'prefixItems', index)))
    const separated = items.flatMap((item, index) => (index === 0 ? [item] : [this.#plain.comma, item]))
    return this.#builder.rule(sequence([literal('['), ...separated, literal(']')]))
  }

  #string(schema: Schema, place: Place): Expression {
    const { path } = place
    const min = countOf(schema.minLength, LONGEST_STRING, [...path, 'minLength']) ?? 0
    const max = countOf(schema.maxLength, Number.POSITIVE_INFINITY, [...path, 'maxLength'])
    const of = (keyword: 'pattern' | 'format') => textsOf(schema[keyword], [...path, keyword])
    return this.#strings.write(
      { patterns: of('pattern'), formats: of('format'), minLength: min, maxLength: max },
      this.#text(place),
      path,
    )
  }

  #number(type: 'number' | 'integer', schema: Schema, { path }: Place): Expression {
    const bound = (keyword: string, exclusive: boolean): Bound | null => {
      const value = schema[keyword]
      if (value === undefined) return null
      if (typeof value === 'number') return { value, exclusive }
      throw new UnsupportedConstraint(`expected a number, got ${typeName(value)}`, [...path, keyword])
    }
    const range: NumberRange = {
      min: tighter(bound('minimum', false), bound('exclusiveMinimum', true), 1),
      max: tighter(bound('maximum', false), bound('exclusiveMaximum', true), -1),
    }
    if (range.min === null && range.max === null)
      return type === 'integer' ? this.#plain.integer() : this.#plain.number()
    const numbers = type === 'integer' ? integersWithin(range) : numbersWithin(range)
    if (numbers === null) {
      const last = KEYWORDS.number!.findLast((keyword) => schema[keyword] !== undefined)!
      throw new UnsupportedConstraint(`no ${type} is within the bounds`, [...path, last])
    }
    return this.#builder.rule(numbers)
  }
}

interface Member {
  readonly text: Expression
  readonly required: boolean
}

/** The same place, one step into a keyword. */
function inside(place: Place, key: string | number): Place {
  return { ...place, path: [...place.path, key], depth: place.depth + 1 }
}

/** A place within an object or array: characters have been written since. */
function within(place: Place, ...keys: (string | number)[]): Place {
  return { path: [...place.path, ...keys], depth: place.depth + 1, form: 'plain', open: new Set() }
}

function tighter(a: Bound | null, b: Bound | null, sign: 1 | -1): Bound | null {
  if (a === null || b === null) return a ?? b
  return (b.value - a.value) * sign >= 0 ? b : a
}

/** What a reference stands for, and where in the schema that is. */
function resolve(root: unknown, reference: string, path: Path): Target {
  if (!isPointer(reference)) {
    throw new UnsupportedConstraint(
      `'${reference}' is not a reference within the schema, only those are supported`,
      path,
    )
  }
  const found = lookUp(root, reference)
  if (found === null) throw new UnsupportedConstraint(`'${reference}' refers to nothing`, path)
  return found
}

function textsOf(value: unknown, path: Path): readonly string[] {
  if (value === undefined) return []
  if (typeof value === 'string') return [value]
  throw new UnsupportedConstraint(`expected a string, got ${typeName(value)}`, path)
}

function impliedTypes(schema: Schema, path: Path): readonly string[] | null {
  const implied = ['object', 'array', 'string', 'number'].filter((type) =>
    KEYWORDS[type]!.some((keyword) => schema[keyword] !== undefined),
  )
  if (implied.length <= 1) return implied.length === 0 ? null : implied
  throw new UnsupportedConstraint(`keywords about ${implied.join(' and ')} need a 'type'`, path)
}

function typesOf(type: unknown, path: Path): readonly string[] {
  const types = Array.isArray(type) ? type : [type]
  const unknown = types.find((name) => typeof name !== 'string' || !Object.hasOwn(KEYWORDS, name))
  if (types.length === 0 || unknown !== undefined) {
    throw new UnsupportedConstraint(
      `expected one or more of ${Object.keys(KEYWORDS).join(', ')}, got ${JSON.stringify(type)}`,
      path,
    )
  }
  // Every integer is a number: the two together are one.
  return [...new Set(types as string[])].filter((name) => name !== 'integer' || !types.includes('number'))
}

function isOfType(value: unknown, type: string): boolean {
  if (type === 'integer') return Number.isInteger(value)
  return typeName(value) === type
}

function typeName(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'array' : typeof value
}

function isObject(value: unknown): value is Schema {
  return typeName(value) === 'object'
}

function listOf(value: unknown, path: Path): readonly unknown[] {
  if (!Array.isArray(value)) throw new UnsupportedConstraint(`expected an array, got ${typeName(value)}`, path)
  if (value.length === 0) throw new UnsupportedConstraint('the array is empty', path)
  return value
}

function stringsOf(value: unknown, path: Path): readonly string[] {
  if (value === undefined) return []
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value
  throw new UnsupportedConstraint('expected an array of strings', path)
}

function schemasOf(value: unknown, path: Path): Schema {
  if (isObject(value)) return value
  throw new UnsupportedConstraint(`expected an object of schemas, got ${typeName(value)}`, path)
}

function countOf(value: unknown, limit: number, path: Path): number | null {
  if (value === undefined) return null
  if (!Number.isInteger(value) || (value as number) < 0) {
    throw new UnsupportedConstraint(`expected an integer that is not negative, got ${JSON.stringify(value)}`, path)
  }
  if ((value as number) > limit)
    throw new UnsupportedConstraint(`${value} is more than the ${limit} that are supported`, path)
  return value as number
}
