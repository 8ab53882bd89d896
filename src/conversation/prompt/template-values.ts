import { invalidRequest, say } from '../../lib/errors/errors.ts'
import type { Path } from '../../lib/errors/param.ts'
import { parseRecord } from '../../lib/json/parse-json.ts'
import { rawItems, rawMembers } from '../../lib/json/raw-json.ts'
import type { TemplateValue, ValueForm } from './chat-template.ts'
import type { Placeholders } from './placeholders.ts'

interface Options {
  readonly form: ValueForm
  /** The keys of a schema may be keywords, which templates know. The keys of data are all the client's own. */
  readonly kind: 'schema' | 'data'
  readonly slots: Placeholders
  /** The parameter that errors name. */
  readonly param: Path
}

/**
 * Prepares a client's JSON text for a template. As `text` it becomes one placeholder and is rendered exactly as
 * written. As a `structure` the template can iterate over it: each string and key becomes a placeholder, which keeps
 * their order.
 * @throws ApiError 400 for a text that is not a JSON object where a structure is needed.
 */
export function templateValue(json: string, { form, kind, slots, param }: Options): TemplateValue {
  if (form === 'text') return slots.text(json, { json, optional: true })
  if (parseRecord(json) === null)
    throw invalidRequest(say`Invalid '${param}': expected the text of a JSON object`, param)
  return new Structure(slots, kind).value(json, kind === 'schema' ? 'schema' : 'data', 0)
}

/** The role of a value in its schema. */
type Role = 'schema' | 'names' | 'data' | 'type'

class Structure {
  readonly #slots: Placeholders
  readonly #kind: Options['kind']

  constructor(slots: Placeholders, kind: Options['kind']) {
    this.#slots = slots
    this.#kind = kind
  }

  value(json: string, role: Role, depth: number): TemplateValue {
    // No template iterates this deep, so the rest is rendered as text.
    if (depth > DEEPEST) return this.#slots.text(json, { json, optional: true })
    const members = rawMembers(json)
    if (members) {
      const entries = members.map(({ key, rawKey, value }): [string, TemplateValue] => [
        this.#isKeyword(key, role) ? key : this.#slots.name(key, rawKey),
        this.value(value, this.#inside(key, role), depth + 1),
      ])
      return Object.fromEntries(entries)
    }
    const items = rawItems(json)
    if (items) return items.map((item) => this.value(item, role, depth + 1))
    const value: unknown = JSON.parse(json)
    if (typeof value === 'string') {
      return role === 'type' && TYPES.has(value.toLowerCase()) ? value : this.#slots.name(value, json)
    }
    // Keep a number as written if JavaScript would print it differently.
    if (typeof value === 'number' && String(value) !== json) return this.#slots.text(json, { json, optional: true })
    return value
  }

  #isKeyword(key: string, role: Role): boolean {
    return this.#kind === 'schema' && role !== 'names' && role !== 'data' && KEYWORDS.has(key)
  }

  #inside(key: string, role: Role): Role {
    if (this.#kind === 'data' || role === 'data') return 'data'
    if (role === 'names') return 'schema'
    if (NAMED.has(key)) return 'names'
    if (key === 'type') return 'type'
    return VALUES.has(key) ? 'data' : 'schema'
  }
}

const DEEPEST = 50
const TYPES = new Set(['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'])
/** Keywords whose values have the client's names as keys. */
const NAMED = new Set(['properties', '$defs', 'definitions', 'patternProperties'])
/** Keywords whose values are data, not schemas. */
const VALUES = new Set(['default', 'const', 'enum', 'example', 'examples'])
const KEYWORDS = new Set(
  [
    'type description title properties required items enum const default format pattern nullable anyOf oneOf allOf not',
    '$ref $defs definitions additionalProperties prefixItems minimum maximum minLength maxLength minItems maxItems',
    'examples patternProperties',
  ].flatMap((words) => words.split(' ')),
)
