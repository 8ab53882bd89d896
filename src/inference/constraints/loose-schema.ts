import { isPointer, lookUp } from './references.ts'
import {
  alternativeOf,
  type Conjunction,
  fits,
  hasNoRoom,
  impliedTypes,
  type Plain,
  together,
} from './schema-conjunction.ts'

type Schema = Readonly<Record<string, unknown>>

/** What one option of a place must follow: the keywords of one value, or a reference as it stands. */
type Option = { readonly plain: Plain } | { readonly reference: string }

/** Schemas that are looked at: alternatives of alternatives multiply. */
const MOST_SCHEMAS = 5_000
/** Alternatives of one place. With more, those of one schema are kept. */
const MOST_OPTIONS = 64
/** References that may lead from one to the next. */
const MOST_HOPS = 20

/** Thrown where a schema takes too long. */
class TooLarge extends Error {}

/**
 * Writes a schema in the keywords that a grammar can keep: `allOf`, and what stands beside `$ref`, `anyOf`, `oneOf` and `enum`,
 * become one schema for each alternative. It allows the same values or more, except where no value satisfies all that
 * is said: constants then stand alone, whatever their type, and anything else stands for any value. The outermost one is that
 * of arguments, so it stands for any object.
 */
export function looseSchema(root: unknown): unknown {
  try {
    return new Loosener(root).write()
  } catch (error) {
    if (error instanceof TooLarge) return root
    throw error
  }
}

class Loosener {
  readonly #root: unknown
  readonly #names = new Map<string, string>()
  readonly #defs: Record<string, unknown> = {}
  readonly #ids = new Map<unknown, number>()
  /** Places that are being written, each with the name that it needs when it comes again within itself. */
  readonly #open = new Map<string, { name: string | null }>()
  #left = MOST_SCHEMAS

  constructor(root: unknown) {
    this.#root = root
  }

  write(): unknown {
    const written = this.#place([this.#root])
    // The list grows while it is gone through.
    for (const [pointer, name] of this.#names) {
      const target = this.#resolve(pointer)
      this.#defs[name] = target === null ? {} : this.#place([target])
    }
    const isAnything = Object.keys(written).length === 0
    return { ...(isAnything ? { type: 'object' } : written), $defs: this.#defs }
  }

  /** What a place may hold that all of these schemas describe. */
  #place(schemas: Conjunction): Schema {
    const key = schemas
      .map((schema) => this.#idOf(schema))
      .sort((a, b) => a - b)
      .join()
    const open = this.#open.get(key)
    if (open !== undefined) {
      open.name ??= `p${key}`
      return { $ref: `#/$defs/${open.name}` }
    }
    const entry: { name: string | null } = { name: null }
    this.#open.set(key, entry)
    const written = this.#optionsWritten(this.#optionsOfAll(schemas))
    this.#open.delete(key)
    if (entry.name === null) return written
    this.#defs[entry.name] = written
    return { $ref: `#/$defs/${entry.name}` }
  }

  #optionsWritten(options: readonly Option[]): Schema {
    const satisfiable = options.filter((option) => 'reference' in option || this.#isSatisfiable(option.plain))
    const used = satisfiable.length > 0 ? satisfiable : options
    const written = used.map((option) =>
      'reference' in option ? { $ref: this.#nameOf(option.reference) } : this.#plainWritten(option.plain),
    )
    return written.length === 1 ? written[0]! : written.length === 0 ? {} : { anyOf: written }
  }

  /** Whether some value satisfies all that is said, as far as constants and bounds show it. */
  #isSatisfiable(plain: Plain): boolean {
    if (hasNoRoom(plain)) return false
    return plain.enum === undefined || plain.enum.some((value) => this.#fits(value, plain))
  }

  #plainWritten(plain: Plain): Schema {
    const values = plain.enum
    if (values !== undefined) {
      const fitting = values.filter((value) => this.#fits(value, plain))
      return { enum: fitting.length > 0 ? fitting : values }
    }
    const { properties, items, prefixItems, additionalProperties, enum: _, ...rest } = plain
    const { types = impliedTypes(plain), ...others } = rest
    return {
      ...others,
      ...(types === undefined ? {} : { type: types.length === 1 ? types[0] : types }),
      ...(items === undefined ? {} : { items: this.#place(items) }),
      ...(prefixItems === undefined ? {} : { prefixItems: prefixItems.map((item) => this.#place(item)) }),
      ...(additionalProperties === undefined ? {} : { additionalProperties: this.#additional(additionalProperties) }),
      ...(properties === undefined ? {} : { properties: this.#members(properties) }),
    }
  }

  #additional(schemas: Conjunction): Schema | boolean {
    return schemas.includes(false) ? false : this.#place(schemas)
  }

  #members(properties: ReadonlyMap<string, Conjunction>): Schema {
    const allowed = [...properties].filter(([, schemas]) => !schemas.includes(false))
    return Object.fromEntries(allowed.map(([name, schemas]) => [name, this.#place(schemas)]))
  }

  #fits(value: unknown, plain: Plain): boolean {
    return fits(value, plain, (inner, schemas) =>
      this.#optionsOfAll(schemas).some((option) => {
        const options = 'reference' in option ? this.#expanded(option.reference, MOST_HOPS) : [option]
        return options.some((one) => !('plain' in one) || this.#fitsOption(inner, one.plain))
      }),
    )
  }

  #fitsOption(value: unknown, plain: Plain): boolean {
    const isConstant = plain.enum?.some((constant) => JSON.stringify(constant) === JSON.stringify(value)) ?? true
    return isConstant && this.#fits(value, plain)
  }

  #optionsOfAll(schemas: Conjunction): readonly Option[] {
    return schemas
      .map((schema) => this.#optionsOf(schema, MOST_HOPS))
      .reduce((all, options) => this.#both(all, options))
  }

  #optionsOf(schema: unknown, hops: number): readonly Option[] {
    if (--this.#left < 0) throw new TooLarge()
    if (schema === false) return []
    if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) return [{ plain: {} }]
    const { $ref, allOf, anyOf, oneOf } = schema as Schema
    const all: (readonly Option[])[] = [[{ plain: alternativeOf(schema as Schema) }]]
    if (typeof $ref === 'string') all.push([{ reference: $ref }])
    if (Array.isArray(allOf)) all.push(...allOf.map((inner) => this.#optionsOf(inner, hops)))
    for (const options of [anyOf, oneOf])
      if (Array.isArray(options)) all.push(options.flatMap((inner) => this.#optionsOf(inner, hops)))
    return all.reduce((known, options) => this.#both(known, options, hops))
  }

  /** What satisfies one of the first and one of the second; where nothing does, the first. */
  #both(first: readonly Option[], second: readonly Option[], hops = MOST_HOPS): readonly Option[] {
    const multiplies = first.length > 1 && second.length > 1
    if (multiplies && first.length * second.length > MOST_OPTIONS) return first
    return first.flatMap((a) => second.flatMap((b) => this.#met(a, b, hops)))
  }

  #met(a: Option, b: Option, hops: number): readonly Option[] {
    if ('plain' in a && Object.keys(a.plain).length === 0) return [b]
    if ('plain' in b && Object.keys(b.plain).length === 0) return [a]
    if ('plain' in a && 'plain' in b) {
      const plain = together(a.plain, b.plain)
      return plain === null ? [] : [{ plain }]
    }
    if ('reference' in a && 'reference' in b && a.reference === b.reference) return [a]
    const [reference, other] = 'reference' in a ? [a.reference, b] : [(b as { reference: string }).reference, a]
    return this.#expanded(reference, hops).flatMap((option) => this.#met(option, other, hops - 1))
  }

  /** What a reference stands for. One that leads nowhere, or in circles, says nothing. */
  #expanded(reference: string, hops: number): readonly Option[] {
    const target = hops > 0 ? this.#resolve(reference) : null
    return target === null ? [{ plain: {} }] : this.#optionsOf(target, hops - 1)
  }

  #resolve(reference: string): unknown {
    return isPointer(reference) ? (lookUp(this.#root, reference)?.target ?? null) : null
  }

  #nameOf(reference: string): string {
    const name = this.#names.get(reference) ?? `r${this.#names.size}`
    this.#names.set(reference, name)
    return `#/$defs/${name}`
  }

  #idOf(schema: unknown): number {
    const id = this.#ids.get(schema) ?? this.#ids.size
    this.#ids.set(schema, id)
    return id
  }
}
