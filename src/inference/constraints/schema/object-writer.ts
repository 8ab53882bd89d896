import { choiceOrNull, EMPTY, type Expression, literal, sequence } from '../grammar.ts'
import { type Member, memberSequence } from '../member-sequence.ts'
import { UnsupportedConstraint } from '../unsupported-constraint.ts'
import { NAME } from '../value-text.ts'
import { type Conjunction, isObject, type Path, type Plain, together } from './schema-conjunction.ts'
import { type Form, isObjectOnly, type Place, type SchemaContext } from './schema-context.ts'
import type { StringWriter } from './string-writer.ts'

/** A name that can precede `=` in a call. */
const KEYWORD = /^[^\s=,()[\]{}'"]+$/

/** Writes the objects of a schema. */
export class ObjectWriter {
  readonly #context: SchemaContext
  readonly #keys: StringWriter
  readonly #writeValue: (parts: Conjunction, place: Place) => Expression | null

  /** @param writeValue writes the value of a member. */
  constructor(
    context: SchemaContext,
    keys: StringWriter,
    writeValue: (parts: Conjunction, place: Place) => Expression | null,
  ) {
    this.#context = context
    this.#keys = keys
    this.#writeValue = writeValue
  }

  /** Null where no object is allowed. */
  write(plain: Plain, place: Place): Expression | null {
    const { bounds = {}, required = [], objects = [] } = plain
    const keys = plain.names === undefined ? null : this.#finiteKeys(plain.names)
    const described = [...new Set([...objects.flatMap(({ properties }) => [...properties.keys()]), ...required])]
    const names = described.length === 0 && keys !== null ? keys : described
    const members: Member[] = []
    for (const name of names) {
      const isRequired = required.includes(name)
      const text = this.#memberText(name, plain, isRequired, place)
      if (text !== null) members.push({ text, isRequired })
      else if (isRequired && !isObjectOnly(place) && !this.#context.isLenient) return null
    }
    const others = keys === null ? this.#others(plain, described, members.length, place) : null
    const counts = { min: bounds.minProperties ?? 0, max: bounds.maxProperties ?? null }
    const comma = place.form === 'members' ? EMPTY : this.#context.plain.comma
    const list =
      memberSequence(members, others, counts, comma, this.#context.builder) ??
      (this.#context.isLenient
        ? memberSequence(members, others, { min: 0, max: null }, comma, this.#context.builder)
        : null)
    if (list !== null) {
      return this.#context.builder.rule(isObjectOnly(place) ? list : sequence([literal('{'), list, literal('}')]))
    }
    const isReached = counts.min <= members.length + (others === null ? 0 : 1)
    const keyword = isReached && counts.max !== null ? 'maxProperties' : 'minProperties'
    return this.#context.nothing(`'${keyword}' cannot be kept beside the properties`, plain.where?.[keyword] ?? [])
  }

  /** The names that a schema of names lists; null if it does not list them. */
  #finiteKeys(names: Conjunction): readonly string[] | null {
    const options = this.#context.options.of(names)
    if (options.length === 0 || options.some((option) => option.enum === undefined)) return null
    const values = options.flatMap((option) =>
      option.enum!.filter((value) => this.#context.options.check.fits(value, option)),
    )
    return [...new Set(values)].filter((value): value is string => typeof value === 'string' && value !== '__proto__')
  }

  /** Null if no value is allowed for the member, or if its name cannot be written in the outermost object. */
  #memberText(name: string, plain: Plain, isRequired: boolean, { form, depth }: Place): Expression | null {
    const said = this.#memberParts(plain, name)
    const parts =
      this.#context.isLenient && isRequired ? said.filter(({ schema, negated }) => schema !== negated) : said
    if (!isRequired && this.#context.isImpossible(parts)) return null
    if (plain.names !== undefined && !this.#context.options.check.allows(name, plain.names)) {
      return this.#context.nothing(`'${name}' is required, but 'propertyNames' does not allow it`, plain.names[0]!.path)
    }
    if (form === 'members') {
      const { begin, between, end } = this.#context.member!
      const terminator = /^[^>]*>?/.exec(between)![0]
      if (name === '' || name.includes('\n') || name.includes(terminator)) return null
      const value = this.#memberValue(name, parts, depth + 1)
      return value && sequence([literal(begin + name), value, literal(end)])
    }
    const value = this.#writeValue(parts, { form: 'plain', depth: depth + 1 })
    if (value === null) {
      const isForbidden = parts.some(({ schema }) => schema === false)
      return isForbidden && isRequired
        ? this.#context.nothing(
            `'${name}' is required, but the schema allows no such property`,
            plain.where?.required ?? [],
          )
        : null
    }
    const key = form === 'keywords' ? this.#keyword(name) : this.#context.plain.key(name)
    if (key !== null) return sequence([key, value])
    if (form === 'keywords') return null
    throw new UnsupportedConstraint(`the name '${name}' cannot be written in this notation`, parts[0]?.path)
  }

  /** A name before `=`; names that Python does not allow are written as strings. */
  #keyword(name: string): Expression | null {
    const key = KEYWORD.test(name) ? literal(name) : this.#context.plain.constant(name)
    return key && sequence([key, literal('=')])
  }

  #memberParts(plain: Plain, name: string): Conjunction {
    for (const { patterns } of plain.objects ?? []) {
      for (const { source, path } of patterns) {
        if (this.#context.options.check.matches(source, name) === null)
          this.#context.refuse('the pattern is not supported', path)
      }
    }
    return this.#context.options.check.memberParts(plain, name)
  }

  /** The value with its prefix. A value that may be a string is bare text, which is read as a string, or as null. */
  #memberValue(name: string, parts: Conjunction, depth: number): Expression | null {
    if (parts.some(({ schema, negated }) => schema === negated)) return null
    const types = this.#context.typesOfMember(name)
    const { between, betweenJson = null } = this.#context.member!
    const behind = (mark: string, value: Expression | null) => value && sequence([literal(mark), value])
    const valueAs = (form: Form) => this.#writeValue(parts, { form, depth })
    if (types !== null && !types.includes('string')) return behind(betweenJson ?? between, valueAs('plain'))
    if (types === null) return behind(between, this.#context.bare.string(0, null))
    if (betweenJson === null) return behind(between, valueAs('bare'))
    const text = behind(between, valueAs('text'))
    return choiceOrNull([text, types.includes('null') ? behind(betweenJson, literal('null')) : null])
  }

  /**
   * One member that the schema does not name. If the schema names some, it must also describe the others.
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
      if (this.#context.isImpossible(parts)) return null
      if (form === 'members') {
        if (matched !== null || described.length > 0 || plain.names !== undefined) return null
        // No member has an empty name, so these are the types of undescribed members.
        const value = this.#memberValue('', parts, depth + 1)
        const { begin, end } = this.#context.member!
        return value && sequence([literal(begin), NAME, value, literal(end)])
      }
      const key = this.#key(
        plain,
        described,
        patterns.map(({ source, path }) => ({ value: source, path })),
        matched,
      )
      if (key === undefined) return null
      const value = this.#writeValue(parts, { form: 'plain', depth: depth + 1 })
      if (form === 'keywords') return key === null ? value && sequence([NAME, literal('='), value]) : null
      return value && this.#context.plain.freeMember(key, this.#context.builder.rule(value))
    })
    const some = choiceOrNull(members)
    if (some === null && written > 0) this.#context.options.nothing = null
    return some && this.#context.builder.rule(some)
  }

  /**
   * A key that is not among the described names and matches only `matched` of the patterns. Null for any key, undefined
   * if there is none.
   */
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
    const options = names === undefined ? [{}] : this.#context.options.of(names)
    const keys = options.flatMap((option) => together(option, own) ?? [])
    const isAny = keys.length === 1 && Object.keys(keys[0]!).every((keyword) => ['types', 'where'].includes(keyword))
    if (isAny) return null
    if (!this.#context.plain.hasQuotedKeys) return undefined
    const written = keys.map((key) => (key.enum ? null : this.#keys.write(key, { form: 'plain', depth: 0 })))
    const some = choiceOrNull(written)
    return some === null ? undefined : this.#context.builder.rule(some)
  }
}
