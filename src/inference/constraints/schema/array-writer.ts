import { EMPTY, type Expression, literal, optional, sequence } from '../grammar.ts'
import { memberSequence } from '../member-sequence.ts'
import { type Conjunction, isIn, isObject, itemParts, type Plain } from './schema-conjunction.ts'
import type { Place, SchemaContext } from './schema-context.ts'

const MOST_ITEMS = 1_000

/** Writes the arrays of a schema. */
export class ArrayWriter {
  readonly #context: SchemaContext
  readonly #writeValue: (parts: Conjunction, place: Place) => Expression | null

  /** @param writeValue writes an item. */
  constructor(context: SchemaContext, writeValue: (parts: Conjunction, place: Place) => Expression | null) {
    this.#context = context
    this.#writeValue = writeValue
  }

  /** Null where no array is allowed. */
  write(plain: Plain, { depth }: Place): Expression | null {
    const { bounds = {}, arrays = [], contains = [] } = plain
    const length = Math.max(0, ...arrays.map(({ prefix }) => prefix.length))
    const count = contains.reduce((sum, { min }) => sum + min, 0)
    const asked = count > MOST_ITEMS ? [] : contains.flatMap(({ part, min }) => Array.from({ length: min }, () => part))
    const place: Place = { form: 'plain', depth: depth + 1 }
    if (contains.some(({ max }) => max !== null) && contains.length > 1) {
      this.#context.refuse(
        "'maxContains' is only supported with a single 'contains'",
        plain.where?.maxContains ?? contains[0]!.part.path,
      )
    }
    const few = contains.filter(({ max }) => max !== null).map(({ part }) => ({ ...part, negated: !part.negated }))
    const isOpen = arrays.some(({ rest }) => isObject(rest?.schema)) || length === 0
    const bad = contains.find(({ min, max }) => max !== null && max < min)
    if (bad !== undefined && !this.#context.isLenient)
      return this.#context.nothing("'maxContains' is less than 'minContains'", plain.where?.maxContains ?? [])
    const min = Math.max(bounds.minItems ?? 0, count)
    const most = bounds.maxItems ?? (isOpen ? null : Math.max(length, min))
    const least = bounds.minItems === undefined && length > 0 ? Math.max(min, Math.min(length, most ?? length)) : min
    if (min > MOST_ITEMS) {
      this.#context.refuse(
        `${min} is more than the ${MOST_ITEMS} that are supported`,
        plain.where?.[min === bounds.minItems ? 'minItems' : 'minContains'] ?? contains[0]?.part.path ?? [],
      )
      return this.write({ ...plain, bounds: {}, contains: [] }, { depth, form: 'plain' })
    }
    if (plain.uniqueItems) return this.#distinct(plain, least, most, place)
    // Contained items come first.
    const prefix: Expression[] = []
    let max = most === null ? null : Math.min(most, MOST_ITEMS)
    for (let at = 0; at < Math.max(length, asked.length); at++) {
      const contained = asked[at]
      const parts = [...itemParts(plain, at), ...(contained === undefined ? few : [contained])]
      const item = at >= min && this.#context.isImpossible(parts) ? null : this.#writeValue(parts, place)
      if (item === null) {
        max = Math.min(max ?? at, at)
        break
      }
      prefix.push(this.#context.builder.rule(item))
    }
    const others = [...itemParts(plain, length), ...few]
    const isFull = max !== null && max <= prefix.length
    const rest =
      isFull || (prefix.length >= min && this.#context.isImpossible(others)) ? null : this.#writeValue(others, place)
    if (rest === null) max = Math.min(max ?? prefix.length, prefix.length)
    if (least > (max ?? least) && min > (max ?? min))
      return this.#context.nothing(
        `'${(bounds.minItems ?? 0) > (max ?? min) ? 'minItems' : 'contains'}' asks for items, but the schema allows none`,
        plain.where?.minItems ?? plain.where?.items ?? contains[0]?.part.path ?? [],
      )
    return this.#items(prefix, rest, Math.min(least, max ?? least), max)
  }

  #items(prefix: readonly Expression[], rest: Expression | null, min: number, max: number | null): Expression {
    if (prefix.length === 0)
      return rest === null
        ? literal('[]')
        : this.#context.builder.rule(this.#context.plain.array(this.#context.builder.rule(rest), min, max))
    const shown = prefix.slice(0, max ?? prefix.length)
    const more =
      rest === null || max === shown.length
        ? EMPTY
        : this.#context.plain.moreItems(
            this.#context.builder.rule(rest),
            Math.max(0, min - shown.length),
            max === null ? null : max - shown.length,
          )
    const list = shown.reduceRight<Expression>((after, item, at) => {
      const here = sequence([...(at === 0 ? [] : [this.#context.plain.comma]), item, after])
      return this.#context.builder.rule(at < min ? here : optional(here))
    }, more)
    return this.#context.builder.rule(sequence([literal('['), list, literal(']')]))
  }

  /** Items that must differ. Items that the schema lists are written in its order. */
  #distinct(plain: Plain, min: number, max: number | null, place: Place): Expression | null {
    const path = plain.where?.uniqueItems ?? []
    const isPlainList =
      (plain.contains ?? []).length === 0 && (plain.arrays ?? []).every(({ prefix }) => prefix.length === 0)
    const options = this.#context.options.of(itemParts(plain, 0))
    const values = options.flatMap((option) => this.#valuesOf(option) ?? [undefined])
    const isListed = isPlainList && !values.includes(undefined)
    if (!isListed && (max ?? 2) > 1) {
      this.#context.refuse("'uniqueItems' is only supported for items that the schema lists", path)
      return this.write({ ...plain, uniqueItems: false }, place)
    }
    if (!isListed) return this.write({ ...plain, uniqueItems: false }, place)
    const texts = values
      .filter((value, at) => !isIn(value, values.slice(0, at)))
      .map((value) => this.#context.plain.constant(value))
    const members = texts.filter((text) => text !== null).map((text) => ({ text, isRequired: false }))
    const list = memberSequence(members, null, { min, max }, this.#context.plain.comma, this.#context.builder)
    if (list !== null) return this.#context.builder.rule(sequence([literal('['), list, literal(']')]))
    return this.#context.nothing("'minItems' asks for more items than can differ", plain.where?.minItems ?? path)
  }

  /** All values of an option that has only a few; null for others. */
  #valuesOf(plain: Plain): readonly unknown[] | null {
    if (plain.enum !== undefined) return plain.enum.filter((value) => this.#context.options.check.fits(value, plain))
    const { types = ['string'] } = plain
    if (types.some((type) => type !== 'boolean' && type !== 'null')) return null
    const values = [...(types.includes('boolean') ? [true, false] : []), ...(types.includes('null') ? [null] : [])]
    return values.filter((value) => this.#context.options.check.fits(value, plain))
  }
}
