import { References, ROOT } from '../../inference/constraints/references.ts'
import { KEYWORDS } from '../../inference/constraints/schema-keywords.ts'

type Schema = Readonly<Record<string, unknown>>
type Key = string | number

/** Keywords that name schemas, of which references are made pointers here, and one of Ajv's own. */
const NAMES: ReadonlySet<string> = new Set([
  '$schema',
  '$id',
  '$anchor',
  '$dynamicAnchor',
  '$recursiveAnchor',
  '$async',
])
const REFERENCES: readonly string[] = ['$ref', '$dynamicRef', '$recursiveRef']

/** A schema of any draft as draft 2020-12 writes it, with references by JSON pointers only. */
export function inLatestDraft(root: unknown): boolean | object {
  const references = new References(root)
  return rewritten(root, ROOT) as boolean | object

  function rewritten(schema: unknown, around: string): unknown {
    if (!isObject(schema)) return schema
    const base = references.baseOf(schema, around)
    const entries = Object.entries(schema).flatMap(([name, value]): readonly (readonly [string, unknown])[] => {
      if (NAMES.has(name) || (name === 'id' && typeof value === 'string')) return []
      if (REFERENCES.includes(name) && typeof value === 'string') {
        const found = references.resolve(value, base)
        return found === null ? [[name, value]] : [['$ref', pointerOf(root, found.path)]]
      }
      return keyword(schema, name, value, base)
    })
    return Object.fromEntries(entries)
  }

  function keyword(
    schema: Schema,
    name: string,
    value: unknown,
    base: string,
  ): readonly (readonly [string, unknown])[] {
    switch (name) {
      // In draft 4, the bound is in the keyword without `exclusive`, which may stand here as well.
      case 'exclusiveMinimum':
      case 'exclusiveMaximum':
        if (typeof value !== 'boolean') break
        return value ? [[name, schema[PLAIN_BOUNDS[name]]]] : []
      case 'type':
        return [[name, schema.nullable === true ? [...[value].flat(), 'null'] : value]]
      case 'nullable':
        return []
    }
    const holds = KEYWORDS.get(name)?.holds
    const isOfList = Array.isArray(schema.items)
    const written = renamed(name, isOfList)
    if (written === null) return []
    if (holds === undefined || typeof value !== 'object' || value === null) return [[written, value]]
    if (Array.isArray(value)) return [[written, holds === 'schema' ? value : value.map((one) => rewritten(one, base))]]
    if (holds === 'schema' || holds === 'schema or list') return [[written, rewritten(value, base)]]
    const inner = Object.entries(value).map(([key, one]) => [key, rewritten(one, base)] as const)
    return [[written, Object.fromEntries(inner)]]
  }
}

const PLAIN_BOUNDS = { exclusiveMinimum: 'minimum', exclusiveMaximum: 'maximum' } as const

/** The keyword's name beside `items`; null where it has no effect. */
function renamed(name: string, isOfList: boolean): string | null {
  if (name === 'items' && isOfList) return 'prefixItems'
  if (name === 'additionalItems') return isOfList ? 'items' : null
  return name
}

function pointerOf(root: unknown, path: readonly Key[]): string {
  let current = root
  const keys = path.map((key) => {
    const isOfList = isObject(current) && Array.isArray(current.items)
    current = (current as Record<Key, unknown>)[key]
    return typeof key === 'number' ? String(key) : (renamed(key, isOfList) ?? key)
  })
  return `#${keys.map((key) => `/${encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))}`).join('')}`
}

function isObject(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
