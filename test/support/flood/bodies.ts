/** For every list, map and text of a request's schema, bodies that hold many small items there and are valid in the rest. */
import type { OpenApi, Schema } from '../openapi.ts'

/** One place of one operation's body that is filled. */
export interface Flooded {
  /** `POST /v1/responses`. */
  readonly operation: string
  readonly path: string
  /** `input[] function_call`. */
  readonly field: string
  /** How many items the place holds when the body is as large as it may be. */
  readonly most: number
  /** The most items that the schema allows; infinite where it does not say. */
  readonly allowed: number
  body(items: number): string
}

type Example = { readonly value: unknown; readonly name: string }

const HOLE = '"\uE123"'
/** Just below the limits of a body (`api/http/body/body-reader.ts`, `lib/json/json-shape.ts`). */
const MOST_BYTES = 20 * 2 ** 20 - 4096
const MOST_VALUES = 249_000
const TEXT_BYTES = 2 ** 19

/** What objects of a type need beside what their schemas require. */
const NEEDED: Readonly<Record<string, object>> = {
  input_image: { image_url: 'data:image/png;base64,AAAA' },
  input_file: { file_data: 'data:image/png;base64,AAAA' },
  noul: { instructions: 'a' },
}

export class FloodBodies {
  readonly #schemas: OpenApi['components']['schemas']
  readonly #document: OpenApi
  readonly #model: string

  /** @param model the id of the model that the requests name. */
  constructor(document: OpenApi, model: string) {
    this.#document = document
    this.#schemas = document.components.schemas
    this.#model = model
  }

  /** Operations after the first that take the same fields have only lists of all kinds of items. */
  *all(): Generator<Flooded> {
    const known = new Set<string>()
    for (const [path, methods] of Object.entries(this.#document.paths)) {
      for (const [method, { requestBody }] of Object.entries(methods)) {
        const schema = requestBody?.content['application/json']?.schema
        if (schema === undefined) continue
        yield* this.#operation(`${method.toUpperCase()} ${path}`, path, schema, known)
      }
    }
  }

  *#operation(operation: string, path: string, schema: Schema, known: Set<string>): Generator<Flooded> {
    const seen = new Set<string>()
    for (const { field, around, items, allowed } of this.#places(schema, [], new Set())) {
      // Many fields hold parts of the same kinds.
      const kind = `${field.split('.').at(-1)} ${items.fill(1)}`
      if (seen.has(kind)) continue
      seen.add(kind)
      const place = `${field} ${items.fill(1)}`
      if (known.has(place) && !field.endsWith(' of all kinds')) continue
      known.add(place)
      const [before, after] = JSON.stringify(around(HOLE_VALUE)).split(HOLE) as [string, string]
      const { bytes, values, most = Number.POSITIVE_INFINITY } = items
      const room = (MOST_BYTES - before.length - after.length) / bytes
      yield {
        operation,
        path,
        field,
        most: Math.floor(Math.min(room, MOST_VALUES / values, most)),
        allowed,
        body: (count) => before + items.fill(count) + after,
      }
    }
  }

  /** Every place within a schema: `around` puts a value there into an example of the whole. */
  *#places(schema: Schema, names: readonly string[], above: ReadonlySet<string>): Generator<Place> {
    const id = schema.$ref?.split('/').at(-1)
    if (id !== undefined) {
      // A schema within itself has no new places.
      if (above.has(id)) return
      yield* this.#places(this.#schemas[id]!, names, new Set([...above, id]))
      return
    }
    const members = (schema.anyOf ?? schema.oneOf) as readonly Schema[] | undefined
    if (members !== undefined) {
      for (const member of members) yield* this.#places(member, names, above)
      return
    }
    const field = names.join('.') || '(body)'
    const types = [schema.type ?? 'any'].flat() as readonly string[]
    if (types.includes('any')) yield* anything(field)
    if (types.includes('string') && schema.enum === undefined && schema.const === undefined) yield text(field)
    if (types.includes('array')) {
      const items = schema.items as Schema
      const allowed = (schema.maxItems as number | undefined) ?? Number.POSITIVE_INFINITY
      const examples = this.#variants(items)
      for (const { value, name } of examples) {
        yield listOf(`${field}[]${name === '' ? '' : ` ${name}`}`, allowed, [value])
      }
      if (examples.length > 1) {
        yield listOf(
          `${field}[] of all kinds`,
          allowed,
          examples.map(({ value }) => value),
        )
      }
      for (const place of this.#places(items, [...names, '[]'], above)) {
        yield { ...place, around: (value) => [place.around(value)] }
      }
    }
    const inner = schema.additionalProperties as Schema | boolean | undefined
    if (types.includes('object') && typeof inner === 'object') {
      const keyed = Object.keys(inner).length === 0
      for (const { value, name } of keyed ? [{ value: 1, name: '' }] : this.#variants(inner)) {
        yield mapOf(`${field}{}${name === '' ? '' : ` ${name}`}`, value)
      }
      if (keyed) yield* anything(field)
      else {
        for (const place of this.#places(inner, [...names, '{}'], above)) {
          yield { ...place, around: (value) => ({ k: place.around(value) }) }
        }
      }
    }
    for (const [name, property] of Object.entries(schema.properties ?? {})) {
      for (const place of this.#places(property, [...names, name], above)) {
        yield {
          ...place,
          around: (value) => ({ ...(this.#example(schema) as object), [name]: place.around(value) }),
        }
      }
    }
  }

  /** The smallest value that a schema takes. */
  #example(schema: Schema, name = ''): unknown {
    if (name === 'model') return this.#model
    if (schema.$ref !== undefined) return this.#example(this.#schemas[schema.$ref.split('/').at(-1)!]!, name)
    if (schema.const !== undefined) return schema.const
    if (Array.isArray(schema.enum)) return schema.enum[0]
    const members = (schema.anyOf ?? schema.oneOf) as readonly Schema[] | undefined
    if (members !== undefined) return this.#example(members[0]!, name)
    const [type] = [schema.type].flat()
    switch (type) {
      case 'string':
        return 'a'
      case 'integer':
      case 'number':
        return Math.max(1, (schema.minimum as number | undefined) ?? 1)
      case 'boolean':
        return false
      case 'null':
        return null
      case 'array':
        // Different ones: some lists take none twice.
        return Array.from({ length: (schema.minItems as number | undefined) ?? 0 }, (_, at) =>
          renamed(this.#example(schema.items as Schema), at),
        )
      case 'object': {
        const inner = schema.additionalProperties
        if (schema.properties === undefined && typeof inner === 'object') {
          return Object.keys(inner as object).length === 0 ? {} : { k: this.#example(inner as Schema) }
        }
        const required = schema.required ?? []
        const fields = Object.entries(schema.properties ?? {}).filter(([key]) => required.includes(key))
        const example = Object.fromEntries(fields.map(([key, field]) => [key, this.#example(field, key)]))
        return { ...example, ...NEEDED[String(example.type)] }
      }
      default:
        return {}
    }
  }

  /** An example of each kind of value that a schema takes: members of unions, and the roles of a message. */
  #variants(schema: Schema): Example[] {
    const id = schema.$ref?.split('/').at(-1)
    if (id !== undefined)
      return this.#variants(this.#schemas[id]!).map(({ value, name }) => ({ value, name: name || id }))
    const members = (schema.anyOf ?? schema.oneOf) as readonly Schema[] | undefined
    if (members !== undefined) return members.flatMap((member) => this.#variants(member))
    const example = this.#example(schema)
    const role = schema.properties?.role?.enum
    if (!Array.isArray(role)) return [{ value: example, name: '' }]
    return role.map((name: string) => ({ value: { ...(example as object), role: name }, name }))
  }
}

const HOLE_VALUE = JSON.parse(HOLE) as string

interface Items {
  /** Bytes that an item takes at most. */
  readonly bytes: number
  /** Values that an item counts as (`lib/json/json-shape.ts`). */
  readonly values: number
  readonly most?: number
  /** JSON that holds a number of items. */
  fill(count: number): string
}

interface Place {
  readonly field: string
  readonly items: Items
  readonly allowed: number
  around(value: unknown): unknown
}

const whole = (value: unknown) => value
const ANY = Number.POSITIVE_INFINITY
/** The levels that a client's JSON may have (`lib/json/json-depth.ts`) are 100. */
const LEVELS = 90

function listOf(field: string, allowed: number, values: readonly unknown[]): Place {
  // An example's texts are all `a`.
  const texts = values.map((value) => JSON.stringify(value).split('"a"'))
  // Those of one round belong together, in all kinds: a call and its output.
  const text = (at: number) => texts[at % texts.length]!.join(`"a${Math.floor(at / texts.length)}"`)
  // Whole rounds: what a list ends with may decide whether it is valid.
  const rounds = (count: number) => Math.max(count - (count % texts.length), Math.min(count, texts.length))
  return place(field, { ...sizeOf(text), fill: (count) => `[${joined(rounds(count), text)}]` }, allowed)
}

function renamed(value: unknown, at: number): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll('"a"', `"a${at}"`))
}

function mapOf(field: string, value: unknown, around: readonly [string, string] = ['', '']): Place {
  const json = JSON.stringify(value)
  const text = (at: number) => `"k${at}":${json}`
  return place(field, { ...sizeOf(text), fill: (count) => `${around[0]}{${joined(count, text)}}${around[1]}` })
}

/** A place that takes any value: a list, a map, lists within lists, a map within maps, and what a JSON schema may hold. */
function anything(field: string): Place[] {
  const nested = (count: number) => '['.repeat(count) + ']'.repeat(count)
  const within = (head: string, tail: string): readonly [string, string] => [head.repeat(LEVELS), tail.repeat(LEVELS)]
  const isSchema = /(parameters|schema|format)$/.test(field)
  const schema = (keyword: string): Place => ({
    ...listOf(`${field}.${keyword}[]`, ANY, [keyword === 'anyOf' ? {} : 'a']),
    around: (value) => ({ type: 'object', [keyword]: value }),
  })
  const properties: Place = {
    ...mapOf(`${field}.properties{}`, {}),
    around: (value) => ({ type: 'object', properties: value }),
  }
  return [
    listOf(`${field}[]`, ANY, [1]),
    mapOf(`${field}{}`, 1),
    mapOf(`${field}{} in lists`, 1, within('[', ']')),
    place(`${field} nested`, { bytes: 2, values: 1, fill: nested }),
    ...(isSchema ? [mapOf(`${field}{} in objects`, 1, within('{"a":', '}')), properties] : []),
    ...(isSchema ? ['enum', 'anyOf', 'required'].map(schema) : []),
  ]
}

/** Texts that what reads texts may go over again and again. */
function text(field: string): Place {
  const pieces = ['_', 'a', ' ', '<', '<hint>', '</hint>', '\n', '{"a":', '[', '\\', '"', '.', '?', '0', '\ud800']
  const fill = (count: number) => JSON.stringify(pieces.map((piece) => piece.repeat(count)).join(''))
  const { length } = fill(1)
  return place(`${field} of characters`, { bytes: length, values: 0, most: Math.floor(TEXT_BYTES / length), fill })
}

function place(field: string, items: Items, allowed = ANY): Place {
  return { field, items, allowed, around: whole }
}

function sizeOf(text: (at: number) => string): Pick<Items, 'bytes' | 'values'> {
  const longest = text(MOST_VALUES)
  // As `json-shape.ts` counts them.
  return { bytes: Buffer.byteLength(longest) + 1, values: 1 + [...longest.matchAll(/[,{[]/g)].length }
}

function joined(count: number, text: (at: number) => string): string {
  const pieces: string[] = []
  for (let at = 0; at < count; at++) pieces.push(text(at))
  return pieces.join()
}
