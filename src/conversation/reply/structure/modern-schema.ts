import { FORMATS } from '../../../inference/constraints/schema/formats.ts'
import { draftOf, References, ROOT } from '../../../inference/constraints/schema/references.ts'
import { isObject, type Schema } from '../../../inference/constraints/schema/schema-conjunction.ts'
import { KEYWORDS } from '../../../inference/constraints/schema/schema-keywords.ts'

/** Validators lose track of what alternatives and dependencies describe. The engine's constraint keeps these. */
const UNEVALUATED = ['unevaluatedProperties', 'unevaluatedItems']
/** Also keywords that move elsewhere in the result or have no effect. */
const LEFT_OUT = [
  ...['$defs', 'definitions', '$anchor', '$dynamicAnchor', '$recursiveAnchor', 'nullable', 'dependencies'],
  ...UNEVALUATED,
]

/**
 * Converts a schema of any draft to 2020-12, with references only to its own `$defs` and without keywords of no effect.
 * Equal alternatives become one: a validator would try each of them, at every level.
 */
export function modernSchema(root: unknown): unknown {
  return new Modernizer(root).write()
}

class Modernizer {
  readonly #references: References
  readonly #root: unknown
  readonly #takesNullable: boolean
  readonly #defs: Record<string, unknown> = {}
  readonly #names = new Map<unknown, string>()

  constructor(root: unknown) {
    this.#root = root
    this.#references = new References(root)
    this.#takesNullable = draftOf(root) === null
  }

  write(): unknown {
    const written = this.#schema(this.#root, ROOT)
    return isObject(written) ? { ...written, $defs: this.#defs } : written
  }

  #schema(schema: unknown, parent: string): unknown {
    if (!isObject(schema)) return schema
    const base = this.#references.baseOf(schema, parent)
    const written: Record<string, unknown> = {}
    for (const [keyword, value] of Object.entries(schema)) {
      const known = KEYWORDS.get(keyword)
      if (known?.effect !== 'enforced' || LEFT_OUT.includes(keyword)) continue
      if (keyword === 'format' && !(typeof value === 'string' && Object.hasOwn(FORMATS, value))) continue
      if (keyword.endsWith('Ref') || keyword === '$ref') {
        if (typeof value === 'string') written.$ref = this.#reference(value, base)
      } else if (Array.isArray(value) && (known.holds === 'list' || known.holds === 'schema or list')) {
        const list = value.map((inner) => this.#schema(inner, base))
        written[keyword] = keyword === 'anyOf' || keyword === 'allOf' ? unique(list) : list
      } else if (known.holds === 'named' && isObject(value)) written[keyword] = this.#named(value, base)
      else written[keyword] = known.holds === undefined ? value : this.#schema(value, base)
    }
    const { dependencies } = schema
    if (isObject(dependencies)) this.#split(dependencies, written, base)
    return this.#withNewForms(schema, written)
  }

  #named(schemas: Schema, base: string): Schema {
    return Object.fromEntries(Object.entries(schemas).map(([name, inner]) => [name, this.#schema(inner, base)]))
  }

  #reference(reference: string, base: string): string {
    const found = this.#references.resolve(reference, base)
    if (found === null) return reference
    let name = this.#names.get(found.target)
    if (name === undefined) {
      name = `r${this.#names.size}`
      this.#names.set(found.target, name)
      this.#defs[name] = this.#schema(found.target, found.base)
    }
    return `#/$defs/${name}`
  }

  /** Splits `dependencies`, which holds both names and schemas. */
  #split(dependencies: Schema, written: Record<string, unknown>, base: string): void {
    const entries = Object.entries(dependencies)
    const names = entries.filter(([, value]) => Array.isArray(value))
    const schemas = Object.fromEntries(entries.filter(([, value]) => !Array.isArray(value)))
    written.dependentRequired = { ...Object.fromEntries(names), ...(written.dependentRequired as object) }
    written.dependentSchemas = { ...this.#named(schemas, base), ...(written.dependentSchemas as object) }
  }

  #withNewForms(schema: Schema, written: Record<string, unknown>): Schema {
    const { exclusiveMinimum, exclusiveMaximum, minimum, maximum, items, additionalItems, type } = written
    if (typeof exclusiveMinimum === 'boolean') written.exclusiveMinimum = exclusiveMinimum ? minimum : undefined
    if (typeof exclusiveMaximum === 'boolean') written.exclusiveMaximum = exclusiveMaximum ? maximum : undefined
    if (Array.isArray(items)) Object.assign(written, { prefixItems: items, items: additionalItems })
    if (schema.nullable === true && this.#takesNullable && type !== undefined) {
      written.type = [...new Set([...(Array.isArray(type) ? type : [type]), 'null'])]
    }
    delete written.additionalItems
    return Object.fromEntries(Object.entries(written).filter(([, value]) => value !== undefined))
  }
}

/** Removes duplicate references. */
function unique(schemas: readonly unknown[]): readonly unknown[] {
  const isReference = (schema: unknown) => isObject(schema) && Object.keys(schema).join() === '$ref'
  const seen = new Set<unknown>()
  return schemas.filter((schema) => {
    if (!isReference(schema)) return true
    const { $ref } = schema as Schema
    return !seen.has($ref) && seen.add($ref)
  })
}
