import { decode, lookUp, type Target } from './json-pointer.ts'
import { isObject, type Schema } from './schema-conjunction.ts'
import { KEYWORDS, schemasIn } from './schema-keywords.ts'

/** Base of a schema without `$id`. No client's URL can start with it. */
export const ROOT = 'schema:///'

/** A schema with an identifier of its own. */
interface Resource {
  readonly root: Target
  readonly anchors: Map<string, Target>
}

/**
 * Resolves the references within a schema: JSON pointers, anchors, and the identifiers of its subschemas. Nothing is
 * fetched.
 */
export class References {
  readonly #root: unknown
  readonly #resources = new Map<string, Resource>()
  /** Bases of the schemas that have their own identifier. */
  readonly #bases = new Map<unknown, string>()

  /** Whether `id` identifies schemas, as in draft 4. */
  readonly #takesId: boolean
  /** Whether the schema is of draft 7 or older. */
  readonly isOlder: boolean
  /** If the schema names no draft: the same references, with `id` as identifier. */
  readonly #ofDraft4: References | null

  constructor(root: unknown, takesId = /draft-0[34]/.test(draftOf(root) ?? '')) {
    this.#root = root
    this.#takesId = takesId
    this.isOlder = /draft-0[3-7]/.test(draftOf(root) ?? '')
    this.#resources.set(ROOT, { root: { target: root, path: [] }, anchors: new Map() })
    this.#index()
    this.#ofDraft4 = !takesId && draftOf(root) === null ? new References(root, true) : null
  }

  /**
   * The base against which a schema's references are resolved.
   * @param parent the base of the enclosing schema.
   */
  baseOf(schema: unknown, parent: string = ROOT): string {
    return this.#bases.get(schema) ?? parent
  }

  /** Whether no subschema has a base of its own, so that a dynamic reference is like any other. */
  get isSingle(): boolean {
    return this.#bases.size <= (this.#bases.has(this.#root) ? 1 : 0)
  }

  /** Null if the schema has no such target. */
  resolve(reference: string, base: string = ROOT): (Target & { readonly base: string }) | null {
    const [address, fragment] = split(absolute(reference, base))
    const resource = this.#resources.get(address)
    if (resource === undefined) return this.#ofDraft4?.resolve(reference, base) ?? null
    const { target, path } = resource.root
    if (fragment === '') return { target, path, base: address }
    if (!fragment.startsWith('/')) {
      const anchor = resource.anchors.get(decode(fragment))
      if (anchor === undefined) return this.#ofDraft4?.resolve(reference, base) ?? null
      return { ...anchor, base: this.baseOf(anchor.target, address) }
    }
    const found = lookUp(target, `#${fragment}`)
    if (found === null) return null
    return { target: found.target, path: [...path, ...found.path], base: this.#baseOn(target, found.path, address) }
  }

  /** The base of the schema at a path. */
  #baseOn(from: unknown, path: Target['path'], base: string): string {
    let [current, own] = [from, base]
    for (const key of path) {
      current = (current as Record<string | number, unknown>)[key]
      own = this.baseOf(current, own)
    }
    return own
  }

  #index(): void {
    const open = [{ target: this.#root, path: [] as Target['path'], base: ROOT }]
    const seen = new Set<unknown>()
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      const { target: schema, path } = next
      if (!isObject(schema) || seen.has(schema)) continue
      seen.add(schema)
      const base = this.#identify(schema, path, next.base)
      for (const [name, value] of Object.entries(schema)) {
        for (const [key, inner] of schemasIn(value, KEYWORDS.get(name)?.holds)) {
          open.push({ target: inner, path: [...path, name, ...key], base })
        }
      }
    }
  }

  /** Records the identifier and the anchors of a schema. */
  #identify(schema: Schema, path: Target['path'], parent: string): string {
    // Draft 4 uses `id`. Up to draft 7, identifiers and anchors have no effect beside a reference.
    const isAlone = typeof schema.$ref !== 'string'
    const ids = [isAlone || !this.isOlder ? schema.$id : undefined, isAlone && this.#takesId ? schema.id : undefined]
    const id = ids.find((value) => typeof value === 'string')
    const [address, fragment] = id === undefined ? [parent, ''] : split(absolute(id, parent))
    const here = { target: schema, path }
    if (address !== parent && fragment === '') {
      if (!this.#resources.has(address)) this.#resources.set(address, { root: here, anchors: new Map() })
      this.#bases.set(schema, address)
    }
    const base = this.baseOf(schema, parent)
    for (const anchor of [fragment, schema.$anchor, schema.$dynamicAnchor]) {
      const { anchors } = this.#resources.get(base)!
      if (typeof anchor === 'string' && anchor !== '' && !anchors.has(anchor)) anchors.set(anchor, here)
    }
    return base
  }
}

/** The draft that a schema names; null if it names none. */
export function draftOf(root: unknown): string | null {
  return isObject(root) && typeof root.$schema === 'string' ? root.$schema : null
}

function absolute(reference: string, base: string): string {
  if (reference.startsWith('#')) return base + reference
  return URL.parse(reference, base)?.href ?? reference
}

function split(address: string): [address: string, fragment: string] {
  const at = address.indexOf('#')
  return at < 0 ? [address, ''] : [address.slice(0, at), address.slice(at + 1)]
}
