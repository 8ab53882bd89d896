import { UnsupportedConstraint } from '../unsupported-constraint.ts'
import { inner, KeywordReader, type Refuse } from './keyword-reader.ts'
import { draftOf, References, ROOT } from './references.ts'
import {
  type Conjunction,
  hasNoRoom,
  isObject,
  type Part,
  type Path,
  type Plain,
  type Schema,
  together,
  typeOf,
  unevaluated,
  withoutMember,
} from './schema-conjunction.ts'
import { KEYWORDS } from './schema-keywords.ts'
import { isFullyNegated, negatedOptions } from './schema-negation.ts'
import { withUnevaluated } from './unevaluated.ts'
import { ValueCheck } from './value-check.ts'

/** Maximum options of one place when alternatives multiply. If there are more, the first and the last are kept. */
const MOST_PRODUCTS = 64
/** Maximum options of one place. */
const MOST_OPTIONS = 2_000
/** Maximum pairs of options that are combined for one schema, which bounds its time. */
const MOST_WORK = 100_000
/** Maximum nesting depth of schemas that describe the same value. */
const DEEPEST = 60
/** Levels of required members and items that are checked for whether any value satisfies an option. */
const LEVELS_SEEN = 3

/** A single option that allows anything. */
const ANYTHING: readonly Plain[] = [{}]

export function partOfRoot(schema: unknown): Part {
  return { schema, path: [], base: ROOT, negated: false }
}

/** The schema takes too long to process. */
export class TooComplex extends UnsupportedConstraint {}

/** A schema refers back to itself while it is being examined. */
class Unfinished extends Error {}

/**
 * Expands what a schema says about one value into options. Each is a conjunction of simple keywords, without `allOf`,
 * `anyOf`, `oneOf`, `not`, `if` and references. A value that satisfies an option satisfies the schema. The converse may
 * not hold: some options are left out if they multiply, or if no keyword expresses a negation.
 */
export class SchemaOptions {
  readonly #references: References
  readonly #reader: KeywordReader
  readonly #refuse: Refuse
  readonly #isLenient: boolean
  readonly check: ValueCheck
  readonly #ids = new Map<unknown, number>()
  readonly #known = new Map<number, readonly Plain[]>()
  readonly #open = new Set<number>()
  /** Parts whose list of options is incomplete. */
  readonly #partial = new Set<number>()
  /** How often options were left out. */
  #losses = 0
  #left = MOST_WORK
  #isPeeking = false
  /** Why the last examined schema allows nothing. */
  nothing: UnsupportedConstraint | null = null

  /** @param refuse throws for an unsupported keyword, or returns if the keyword is to be left out. */
  constructor(root: unknown, refuse: Refuse, isLenient: boolean) {
    this.#references = new References(root)
    this.#refuse = refuse
    this.#isLenient = isLenient
    this.check = new ValueCheck((parts) => this.of(parts), isLenient)
    this.#reader = new KeywordReader(refuse, isLenient, draftOf(root) === null)
  }

  /** Equal for conjunctions of the same parts. */
  keyOf(parts: Conjunction): string {
    return [...new Set(parts.map((part) => this.#idOf(part)))].sort((a, b) => a - b).join()
  }

  of(parts: Conjunction): readonly Plain[] {
    const unique = new Map(parts.map((part) => [this.#idOf(part), part]))
    return this.#all([...unique.values()].map((part) => () => this.#expanded(part)))
  }

  /** The options of a value that satisfies one option from each list. */
  #all(lists: readonly (() => readonly Plain[])[]): readonly Plain[] {
    return lists.reduce<readonly Plain[]>(
      (known, list) => (known.length === 0 ? known : this.#both(known, list())),
      ANYTHING,
    )
  }

  #both(first: readonly Plain[], second: readonly Plain[]): readonly Plain[] {
    if (first === ANYTHING) return second
    if (second === ANYTHING) return first
    this.#spend(first.length * second.length)
    const pairs = first.flatMap((a) => second.flatMap((b) => together(a, b) ?? []))
    const multiplies = first.length > 1 && second.length > 1 && pairs.length > Math.max(first.length, second.length)
    if (!multiplies || pairs.length <= MOST_PRODUCTS) return pairs
    this.#losses++
    return [...pairs.slice(0, MOST_PRODUCTS / 2), ...pairs.slice(-MOST_PRODUCTS / 2)]
  }

  #spend(work: number): void {
    this.#left -= work
    if (this.#left < 0) throw new TooComplex('its alternatives are too many together')
  }

  #expanded(part: Part): readonly Plain[] {
    const id = this.#idOf(part)
    const known = this.#known.get(id)
    if (known !== undefined) {
      if (this.#partial.has(id)) this.#losses++
      return known
    }
    if (this.#open.has(id)) {
      if (this.#isPeeking) throw new Unfinished()
      this.#refuse('the schema refers to itself', part.path)
      return ANYTHING
    }
    if (this.#open.size > DEEPEST)
      throw new TooComplex(`schemas nested deeper than ${DEEPEST} are not supported`, part.path)
    this.#open.add(id)
    this.#spend(1)
    const losses = this.#losses
    let options: readonly Plain[]
    try {
      options = this.#optionsOf(part)
    } finally {
      this.#open.delete(id)
    }
    if (options.length > MOST_OPTIONS)
      throw new TooComplex(`more than ${MOST_OPTIONS} alternatives are not supported`, part.path)
    this.#known.set(id, options)
    if (this.#losses > losses) this.#partial.add(id)
    return options
  }

  #optionsOf(part: Part): readonly Plain[] {
    const { schema, path, negated } = part
    if (schema === true || schema === false) {
      if (schema !== negated) return ANYTHING
      this.#isNothing('the schema false allows nothing', path)
      return []
    }
    if (!isObject(schema)) {
      this.#refuse(`expected a schema, got ${typeOf(schema)}`, path)
      return ANYTHING
    }
    const own = { ...part, base: this.#references.baseOf(schema, part.base) }
    if (!negated) return this.#positive(own)
    const target = this.#targetOf({ ...own, negated: false })
    // Older drafts ignore keywords beside a reference. A value that violates the target violates both together.
    if (target !== null) {
      if (hasOtherKeywords(schema)) this.#losses++
      return this.#expanded({ ...target, negated: true })
    }
    if (!isFullyNegated(schema)) this.#losses++
    return negatedOptions(own, this.#reader, (parts) => this.of(parts)).map(unevaluated)
  }

  #positive(part: Part): readonly Plain[] {
    const schema = part.schema as Schema
    const list = (keyword: string): readonly Part[] | null => {
      const schemas = schema[keyword]
      if (schemas === undefined) return null
      const at = [...part.path, keyword]
      if (Array.isArray(schemas) && schemas.length > 0)
        return schemas.map((one, index) => inner(part, one, keyword, index))
      this.#refuse(Array.isArray(schemas) ? 'the array is empty' : `expected an array, got ${typeOf(schemas)}`, at)
      return null
    }
    const plain = this.#reader.plainOf(part)
    if (plain === null) {
      this.#isNothing(`no value of '${'enum' in schema ? 'enum' : 'const'}' is allowed beside it`, [
        ...part.path,
        'enum' in schema ? 'enum' : 'const',
      ])
      return []
    }
    const target = this.#targetOf(part)
    // Validators of older drafts ignore keywords beside a reference, and so allow more.
    if (target !== null && this.#references.isOlder && hasOtherKeywords(schema)) this.#losses++
    const [allOf, anyOf, oneOf] = [list('allOf'), list('anyOf'), list('oneOf')]
    const { not, if: condition } = schema
    const options = this.#all([
      () => (Object.keys(plain).length === 1 ? ANYTHING : [plain]),
      ...(target === null ? [] : [() => this.#expanded(target)]),
      ...(allOf ?? []).map((one) => () => this.#expanded(one)),
      ...(anyOf === null ? [] : [() => this.#any(anyOf)]),
      ...(oneOf === null ? [] : [() => this.#one(oneOf, [...part.path, 'oneOf'])]),
      ...(not === undefined ? [] : [() => this.#not({ ...inner(part, not, 'not'), negated: true })]),
      ...(condition === undefined ? [] : [() => this.#conditional(part)]),
      ...this.#dependencies(part),
    ])
    return options.map((plain) => {
      const full = withUnevaluated(part, plain)
      // A value that satisfies several options is described by all of them.
      if (full !== plain) this.#losses++
      return full
    })
  }

  #not(part: Part): readonly Plain[] {
    const options = this.#expanded(part).map(unevaluated)
    if (options.length === 0) this.#isNothing("'not' leaves nothing that can be enforced", part.path)
    return options
  }

  /** Merges equal alternatives. */
  #any(parts: readonly Part[]): readonly Plain[] {
    const options = new Set(parts.flatMap((part) => this.#expanded(this.#aliased(part))))
    return options.has(ANYTHING[0]!) ? ANYTHING : withConstantsTogether([...options])
  }

  /** Replaces a schema that only refers to another by that one. */
  #aliased(part: Part): Part {
    const { schema } = part
    if (!isObject(schema) || Object.keys(schema).length !== 1) return part
    return this.#targetOf({ ...part, base: this.#references.baseOf(schema, part.base) }) ?? part
  }

  #one(parts: readonly Part[], path: Path): readonly Plain[] {
    const aliased = parts.map((part) => this.#aliased(part))
    const lists = aliased.map((part) => this.#expanded(part))
    const isPartial = aliased.map((part) => this.#partial.has(this.#idOf(part)))
    const constants = onlyConstants(lists)
    if (constants !== null && !isPartial.includes(true)) {
      const counts = Map.groupBy(constants, (value) => value)
      const once = [...counts].flatMap(([value, list]) => (list.length === 1 ? [value] : []))
      return once.length === 0 ? [] : [{ enum: once }]
    }
    const options = lists.flatMap((list, index) =>
      list.flatMap((option) => {
        let kept: readonly Plain[] = [option]
        for (const [at, others] of lists.entries()) {
          if (at === index || kept.length === 0) continue
          this.#spend(kept.length * others.length)
          // The missing options of the others may overlap with this one.
          const isApart = !isPartial[at] && kept.every((one) => others.every((other) => this.#areApart(one, other)))
          if (isApart) continue
          kept = this.#both(kept, this.#expanded({ ...aliased[at]!, negated: true }))
        }
        return kept
      }),
    )
    if (options.length > 0) return options
    if (this.#isLenient) return lists.flat()
    this.#isNothing("the schemas of this 'oneOf' cannot be told apart; use 'anyOf'", path)
    return []
  }

  #areApart(a: Plain, b: Plain): boolean {
    const both = together(a, b)
    return both === null || !this.isSatisfiable(both)
  }

  /** False if types, bounds, constants or required members show that no value satisfies an option. */
  isSatisfiable(plain: Plain, levels = LEVELS_SEEN): boolean {
    if (plain.isMisfit || plain.types?.every((type) => hasNoRoom(type, plain))) return false
    if (plain.enum !== undefined)
      return plain.enum.some((value) => typeof value === 'object' || this.check.mayFit(value, plain))
    const isObjectOnly = plain.types?.length === 1 && plain.types[0] === 'object'
    // Conditions on members do not apply to values of other types.
    if (levels === 0 || !isObjectOnly || !this.check.hasKnownPatterns(plain)) return true
    return (plain.required ?? []).every((name) => {
      const names = plain.names === undefined ? null : this.#peek(plain.names)
      if (names !== null && !names.some((option) => this.check.mayFit(name, option))) return false
      const parts = this.check.memberParts(plain, name)
      const options = parts.length === 0 ? null : this.#peek(parts)
      return options === null || options.some((option) => this.isSatisfiable(option, levels - 1))
    })
  }

  /**
   * All options of a member's value; null if some are left out, or if they refer back to a schema that is being
   * examined.
   */
  #peek(parts: Conjunction): readonly Plain[] | null {
    const was = this.#isPeeking
    const losses = this.#losses
    this.#isPeeking = true
    try {
      const options = this.of(parts)
      return this.#losses > losses ? null : options
    } catch (error) {
      if (error instanceof Unfinished) return null
      throw error
    } finally {
      this.#isPeeking = was
    }
  }

  #conditional(part: Part): readonly Plain[] {
    const { if: condition, then, else: otherwise } = part.schema as Schema
    if (then === undefined && otherwise === undefined) return ANYTHING
    const schema = inner(part, condition, 'if')
    const branch = (key: 'then' | 'else', test: Part, inside: unknown) =>
      this.#all([
        () => this.#expanded(test),
        ...(inside === undefined ? [] : [() => this.#expanded(inner(part, inside, key))]),
      ])
    return [...branch('then', schema, then), ...branch('else', { ...schema, negated: true }, otherwise)]
  }

  /** For each dependency: either what follows from the member, or the absence of the member. */
  #dependencies(part: Part): readonly (() => readonly Plain[])[] {
    const { dependencies, dependentRequired, dependentSchemas } = part.schema as Schema
    const all = Object.entries({ dependencies, dependentRequired, dependentSchemas }).flatMap(([keyword, held]) =>
      this.#reader.schemasIn(held, [...part.path, keyword]).map(([name, demand]) => ({ keyword, name, demand })),
    )
    return all.map(({ keyword, name, demand }) => () => {
      const isNames = keyword === 'dependentRequired' || Array.isArray(demand)
      const path = [...part.path, keyword, name]
      // `unevaluatedProperties` and `unevaluatedItems` count what a schema describes only if the member is present.
      const followed = isNames
        ? [{ required: this.#reader.namesIn(demand, path) }]
        : this.#both([{ types: ['object'], required: [name] }], this.#expanded(inner(part, demand, keyword, name)))
      return [...followed, withoutMember(name, path)]
    })
  }

  /** The target of the schema's reference; null if it has none. */
  #targetOf(part: Part): Part | null {
    const schema = part.schema as Schema
    const keyword = ['$ref', '$dynamicRef', '$recursiveRef'].find((name) => schema[name] !== undefined)
    if (keyword === undefined) return null
    const at = [...part.path, keyword]
    const reference = schema[keyword]
    if (typeof reference !== 'string') {
      this.#refuse('expected a string', at)
      return null
    }
    if (keyword !== '$ref' && !this.#references.isSingle) {
      this.#refuse(`'${keyword}' is only supported where no schema inside has an '$id'`, at)
      return null
    }
    const found = this.#references.resolve(reference, part.base)
    if (found !== null) {
      const target = { schema: found.target, path: found.path, base: found.base, negated: part.negated }
      if (!this.#isPeeking && this.#open.has(this.#idOf(target))) this.#refuse(`'${reference}' refers to itself`, at)
      return target
    }
    const isWithin = reference.startsWith('#')
    this.#refuse(
      isWithin
        ? `'${reference}' refers to nothing`
        : `'${reference}' is not a reference within the schema, only those are supported`,
      at,
    )
    return null
  }

  #isNothing(message: string, path: Path): void {
    this.nothing = new UnsupportedConstraint(message, path)
  }

  #idOf({ schema, negated }: Part): number {
    const id = this.#ids.get(schema) ?? this.#ids.size
    this.#ids.set(schema, id)
    return 2 * id + (negated ? 1 : 0)
  }
}

/** Whether a keyword with an effect is beside a reference. */
function hasOtherKeywords(schema: Schema): boolean {
  return Object.keys(schema).some(
    (keyword) => KEYWORDS.get(keyword)?.effect === 'enforced' && !keyword.startsWith('$') && keyword !== 'definitions',
  )
}

/** The constants of options that consist only of constants; null if some do not. */
function onlyConstants(lists: readonly (readonly Plain[])[]): readonly unknown[] | null {
  const isScalar = (value: unknown) => typeof value !== 'object' || value === null
  const isOnly = lists.every((list) => list.every((plain) => isConstant(plain) && plain.enum!.every(isScalar)))
  return isOnly ? lists.flatMap((list) => list.flatMap((plain) => plain.enum!)) : null
}

function isConstant(plain: Plain): boolean {
  return plain.enum !== undefined && Object.keys(plain).every((key) => ['enum', 'types', 'where'].includes(key))
}

/** Merges options that consist only of constants. */
function withConstantsTogether(options: readonly Plain[]): readonly Plain[] {
  const constants = options.filter(isConstant)
  if (constants.length < 2) return options
  const together = { enum: constants.flatMap((plain) => plain.enum!), where: constants[0]!.where ?? {} }
  return options.flatMap((plain) => (plain === constants[0] ? [together] : isConstant(plain) ? [] : [plain]))
}
