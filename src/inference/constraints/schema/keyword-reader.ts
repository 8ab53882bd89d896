import { FORMATS } from './formats.ts'
import {
  type ArrayShape,
  type Bound,
  HIGHEST,
  isIn,
  isObject,
  isOfTypes,
  LOWEST,
  type ObjectShape,
  type Part,
  type Path,
  type Plain,
  type Schema,
  type Source,
  TYPES,
  typeOf,
} from './schema-conjunction.ts'
import { KEYWORDS } from './schema-keywords.ts'

/** Rejects a keyword that cannot be enforced. If it returns, the keyword is left out. */
export type Refuse = (message: string, path: Path) => void

const COUNTS = ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties']
/** Powers of two beyond the safe integers that JavaScript writes exactly. */
const EXACT_POWERS = [2 ** 53, 2 ** 54]

/** Reads the keywords of one schema that describe the value directly, without its alternatives. */
export class KeywordReader {
  readonly #refuse: Refuse
  readonly #isLenient: boolean
  /** Whether `nullable` has the meaning that OpenAPI gives it. */
  readonly #takesNullable: boolean

  constructor(refuse: Refuse, isLenient: boolean, takesNullable: boolean) {
    this.#refuse = refuse
    this.#isLenient = isLenient
    this.#takesNullable = takesNullable
  }

  /** Null if the keywords allow nothing. */
  plainOf(part: Part): Plain | null {
    const schema = part.schema as Schema
    const types = this.typesOf(part)
    const values = this.constantsOf(part)
    const fitting = values?.filter((value) => types === undefined || isOfTypes(value, types))
    // Models write constants more reliably than types: some schemas have `"type": "boolean"` beside `"enum": ["True",
    // "False"]`.
    const isMisfit = values !== undefined && fitting!.length === 0
    if (isMisfit && !this.#isLenient) return null
    const allowed = isMisfit ? values : fitting
    const plain: Plain = {
      ...(types && !isMisfit && { types }),
      ...(isMisfit && { isMisfit }),
      ...(allowed && { enum: allowed }),
      ...this.#objectOf(part),
      ...this.#arrayOf(part),
      ...this.#stringOf(part),
      ...this.boundsOf(part),
      ...this.#multiplesOf(part),
    }
    const where = Object.keys(schema).filter((key) => KEYWORDS.get(key)?.effect === 'enforced')
    return { ...plain, where: Object.fromEntries(where.map((key) => [key, [...part.path, key]])) }
  }

  typesOf({ schema, path }: Part): readonly string[] | undefined {
    const { type, nullable } = schema as Schema
    if (type === undefined) return undefined
    const all: readonly unknown[] = Array.isArray(type) ? type : [type]
    const known = all.filter((name) => TYPES.includes(name as string)) as string[]
    if (known.length < all.length || all.length === 0) {
      const names = TYPES.join(', ')
      this.#refuse(`expected one or more of ${names}, got ${JSON.stringify(type)}`, [...path, 'type'])
      if (known.length === 0) return undefined
    }
    // Every integer is a number, so both together are `number`.
    const types = [...new Set(known)].filter((name) => name !== 'integer' || !known.includes('number'))
    return nullable === true && this.#takesNullable && !types.includes('null') ? [...types, 'null'] : types
  }

  constantsOf({ schema, path }: Part): readonly unknown[] | undefined {
    const { enum: values } = schema as Schema
    const hasConstant = Object.hasOwn(schema as Schema, 'const')
    const constant = hasConstant ? this.#exact([(schema as Schema).const], () => [...path, 'const']) : undefined
    if (values === undefined) return constant
    if (!Array.isArray(values)) {
      this.#refuse(`expected an array, got ${typeOf(values)}`, [...path, 'enum'])
      return constant
    }
    if (values.length === 0) {
      this.#refuse('the array is empty', [...path, 'enum'])
      return constant
    }
    if (constant === undefined) return this.#exact(values, (at) => [...path, 'enum', at])
    return this.#isLenient ? constant : constant.filter((value) => isIn(value, values))
  }

  /**
   * Undefined if a constant is no longer exactly what the client wrote. Without it, the model can still write the value
   * as it reads it in the schema.
   */
  #exact(values: readonly unknown[], pathOf: (at: number) => Path): readonly unknown[] | undefined {
    const at = values.findIndex(isRounded)
    if (at === -1) return values
    this.#refuse(
      'constants with integers beyond 2^53 are not supported: a double may not hold them exactly',
      pathOf(at),
    )
    return undefined
  }

  #objectOf(part: Part): Plain {
    const schema = part.schema as Schema
    const { required, propertyNames } = schema
    const shape = this.#objectShapeOf(part)
    const names = required === undefined ? [] : this.namesIn(required, [...part.path, 'required'])
    const allowed = names.filter((name) => this.#isWritable(name, [...part.path, 'required']))
    return {
      ...(shape && { objects: [shape] }),
      ...(required !== undefined && { required: [...new Set(allowed)] }),
      ...(propertyNames !== undefined && { names: [inner(part, propertyNames, 'propertyNames')] }),
    }
  }

  #objectShapeOf(part: Part): ObjectShape | null {
    const { properties, patternProperties, additionalProperties } = part.schema as Schema
    const described = this.schemasIn(properties, [...part.path, 'properties'])
    const patterned = this.schemasIn(patternProperties, [...part.path, 'patternProperties'])
    if (properties === undefined && patternProperties === undefined && additionalProperties === undefined) return null
    return {
      properties: new Map(
        described
          .filter(([name]) => this.#isWritable(name, [...part.path, 'properties']))
          .map(([name, schema]) => [name, inner(part, schema, 'properties', name)]),
      ),
      patterns: patterned.map(([source, schema]) => ({
        source,
        part: inner(part, schema, 'patternProperties', source),
        path: [...part.path, 'patternProperties', source],
      })),
      ...(additionalProperties !== undefined && {
        additional: inner(part, additionalProperties, 'additionalProperties'),
      }),
      isEvaluated: true,
    }
  }

  /** Validators ignore this name, and JavaScript clients would lose the member. */
  #isWritable(name: string, path: Path): boolean {
    if (name !== '__proto__') return true
    this.#refuse("a property '__proto__' is not supported", path)
    return false
  }

  #arrayOf(part: Part): Plain {
    const { items, prefixItems, additionalItems, uniqueItems, contains, minContains, maxContains } =
      part.schema as Schema
    const isList = Array.isArray(items)
    const [tuple, keyword] = isList ? [items, 'items'] : [prefixItems, 'prefixItems']
    const [rest, restKeyword] = isList ? [additionalItems, 'additionalItems'] : [items, 'items']
    const isTuple = Array.isArray(tuple)
    if (tuple !== undefined && !isTuple)
      this.#refuse(`expected an array, got ${typeOf(tuple)}`, [...part.path, keyword!])
    const shape: ArrayShape = {
      prefix: isTuple ? tuple.map((schema, at) => inner(part, schema, keyword as string, at)) : [],
      ...(rest !== undefined && { rest: inner(part, rest, restKeyword as string) }),
      isEvaluated: true,
    }
    return {
      ...((isTuple || rest !== undefined) && { arrays: [shape] }),
      ...(uniqueItems === true && { uniqueItems }),
      ...(contains !== undefined && {
        contains: [
          {
            part: inner(part, contains, 'contains'),
            min: this.#countOf(minContains, [...part.path, 'minContains']) ?? 1,
            max: this.#countOf(maxContains, [...part.path, 'maxContains']),
          },
        ],
      }),
    }
  }

  #stringOf({ schema, path }: Part): Plain {
    const { pattern, format } = schema as Schema
    const text = (keyword: string, value: unknown): Source<string>[] => {
      if (value === undefined) return []
      if (typeof value === 'string') return [{ value, path: [...path, keyword] }]
      this.#refuse(`expected a string, got ${typeOf(value)}`, [...path, keyword])
      return []
    }
    const patterns = text('pattern', pattern)
    // Unknown formats are comments.
    const formats = text('format', format).filter(({ value }) => Object.hasOwn(FORMATS, value))
    return { ...(patterns.length > 0 && { patterns }), ...(formats.length > 0 && { formats }) }
  }

  boundsOf({ schema, path }: Part): Plain {
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema as Schema
    // In draft 4, the other keyword holds the bound.
    const older: Partial<Record<Bound, unknown>> = {
      ...(typeof exclusiveMinimum === 'boolean' && { exclusiveMinimum: exclusiveMinimum ? minimum : undefined }),
      ...(typeof exclusiveMaximum === 'boolean' && { exclusiveMaximum: exclusiveMaximum ? maximum : undefined }),
    }
    const entries = [...LOWEST, ...HIGHEST].flatMap((keyword): [Bound, number][] => {
      const value = keyword in older ? older[keyword] : (schema as Schema)[keyword]
      const number = COUNTS.includes(keyword)
        ? this.#countOf(value, [...path, keyword])
        : this.#numberOf(value, [...path, keyword])
      return number === null ? [] : [[keyword, number]]
    })
    return entries.length === 0 ? {} : { bounds: Object.fromEntries(entries) }
  }

  #multiplesOf({ schema, path }: Part): Plain {
    const at = [...path, 'multipleOf']
    const value = this.#numberOf((schema as Schema).multipleOf, at)
    if (value === null) return {}
    if (value > 0) return { multiples: [{ value, path: at }] }
    this.#refuse(`expected a number above 0, got ${value}`, at)
    return {}
  }

  #numberOf(value: unknown, path: Path): number | null {
    if (value === undefined) return null
    if (typeof value === 'number' && Number.isFinite(value)) return value
    this.#refuse(`expected a number, got ${typeof value === 'number' ? 'one that is too large' : typeOf(value)}`, path)
    return null
  }

  #countOf(value: unknown, path: Path): number | null {
    if (value === undefined) return null
    if (Number.isInteger(value) && (value as number) >= 0) return value as number
    this.#refuse(
      `expected an integer that is not negative, got ${typeof value === 'number' ? value : JSON.stringify(value)}`,
      path,
    )
    return null
  }

  namesIn(value: unknown, path: Path): readonly string[] {
    if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value
    this.#refuse('expected an array of strings', path)
    return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : []
  }

  schemasIn(value: unknown, path: Path): readonly [string, unknown][] {
    if (value === undefined) return []
    if (isObject(value)) return Object.entries(value)
    this.#refuse(`expected an object of schemas, got ${typeOf(value)}`, path)
    return []
  }
}

/**
 * Whether a constant contains an integer that may have lost digits as a double. If few digits precede its zeros, the
 * client wrote them. A larger power of two may have been one less, such as 2^63 - 1. Still larger numbers have an
 * exponent.
 */
function isRounded(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).some(isRounded)
  if (!Number.isInteger(value) || Number.isSafeInteger(value) || EXACT_POWERS.includes(Math.abs(value as number)))
    return false
  return !/^-?\d{1,12}0*$|e/.test(String(value))
}

/** A schema within another. */
export function inner(part: Part, schema: unknown, ...keys: (string | number)[]): Part {
  return { schema, path: [...part.path, ...keys], base: part.base, negated: false }
}
