import { timingSafeEqual } from 'node:crypto'
import { eq, sql } from 'drizzle-orm'
import { type Database, tables } from '../storage/index.ts'
import { hashOf, type Scope } from './api-key.ts'
import { ALL_SCOPES, CONFIGURED_KEY, FIRST_ORGANISATION, type Principal } from './principal.ts'

const { apiKeys, organisations } = tables

/** Who holds which key. */
export interface ApiKeys {
  /** The key's owner; null for a key that nobody holds. @throws ApiError 503 when that cannot be told now. */
  authenticate(key: string): Principal | null | Promise<Principal | null>
}

interface Known {
  /** Null for a key that nobody holds. */
  readonly principal: Principal | null
  /** Unix milliseconds. */
  readonly expiresAt: number
  /** When the database said so, by the monotonic clock. */
  readonly since: number
}

/** An answer of the database this old is given without asking again. */
const FRESH_MS = 1_000
/** One this old is given a last time while the database is asked: a key that another process revoked ends within it. */
const STALE_MS = 3_000
/** While the database is away, keys that it knew so recently go on: nobody can revoke one then. */
const OUTAGE_MS = 600_000
/** Keys that are remembered, known and unknown. */
const MAX_KNOWN = 20_000
const LAST_USED_MS = 5_000

/** Authenticates from memory, and keeps what it remembers close to the database. */
export class Authenticator implements ApiKeys {
  readonly #database: Database
  readonly #configured: Buffer | null
  readonly #known = new Map<string, Known>()
  readonly #asking = new Map<string, Promise<Known>>()
  /** Unix milliseconds, by the key's id; not yet in the database. */
  readonly #lastUsed = new Map<string, number>()
  readonly #timer: NodeJS.Timeout
  #writing: Promise<void> = Promise.resolve()

  /** @param configured a key that the configuration fixes, if any. It may do everything for the first organisation. */
  constructor(database: Database, configured: string | null) {
    this.#database = database
    this.#configured = configured === null ? null : Buffer.from(hashOf(configured))
    this.#timer = setInterval(() => void this.#writeLastUsed(), LAST_USED_MS)
    this.#timer.unref()
  }

  /**
   * Keys are compared and looked up by their hashes only: what a client can find out from times is about a hash that it
   * cannot choose.
   */
  authenticate(key: string): Principal | null | Promise<Principal | null> {
    const hash = hashOf(key)
    const remembered = this.#known.get(hash)
    if (!remembered && this.#configured && timingSafeEqual(this.#configured, Buffer.from(hash))) return CONFIGURED
    const known = remembered ? this.#refresh(hash, remembered) : this.#ask(hash)
    return known instanceof Promise ? known.then((told) => this.#holder(told)) : this.#holder(known)
  }

  #holder({ principal, expiresAt }: Known): Principal | null {
    const now = Date.now()
    if (principal === null || now >= expiresAt) return null
    this.#lastUsed.set(principal.key, now)
    return principal
  }

  #refresh(hash: string, known: Known): Known | Promise<Known> {
    const age = performance.now() - known.since
    if (age < FRESH_MS) return known
    const asked = this.#ask(hash)
    if (age >= STALE_MS) return asked.catch((error: unknown) => fallBack(error, known, age))
    asked.catch(() => {})
    return known
  }

  /** One question at a time about each key. */
  #ask(hash: string): Promise<Known> {
    let asked = this.#asking.get(hash)
    if (!asked) {
      asked = this.#read(hash).finally(() => this.#asking.delete(hash))
      this.#asking.set(hash, asked)
    }
    return asked
  }

  async #read(hash: string): Promise<Known> {
    const since = performance.now()
    const [row] = await this.#database.use((queries) =>
      queries
        .select({
          id: apiKeys.id,
          organisation: apiKeys.organisationId,
          scopes: apiKeys.scopes,
          expiresAt: apiKeys.expiresAt,
          revoked: sql<boolean>`${apiKeys.revokedAt} is not null or ${organisations.revokedAt} is not null`,
          limits: organisations.limits,
        })
        .from(apiKeys)
        .innerJoin(organisations, eq(organisations.id, apiKeys.organisationId))
        .where(eq(apiKeys.hash, hash)),
    )
    const known: Known =
      !row || row.revoked
        ? { principal: null, expiresAt: 0, since }
        : {
            principal: {
              organisation: row.organisation,
              key: row.id,
              scopes: row.scopes.includes('admin') ? ALL_SCOPES : new Set(row.scopes as Scope[]),
              limits: row.limits,
            },
            expiresAt: row.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY,
            since,
          }
    // Put last, so that the one that was asked about longest ago is the first.
    this.#known.delete(hash)
    this.#known.set(hash, known)
    if (this.#known.size > MAX_KNOWN) this.#known.delete(this.#known.keys().next().value!)
    return known
  }

  #writeLastUsed(): Promise<void> {
    this.#writing = this.#writing.then(async () => {
      if (this.#lastUsed.size === 0) return
      const used = [...this.#lastUsed]
      this.#lastUsed.clear()
      const rows = used.map(([id, time]) => sql`(${id}, ${new Date(time).toISOString()}::timestamptz)`)
      await this.#database
        .execute(
          sql`update api_keys set last_used_at = greatest(last_used_at, used.at)
            from (values ${sql.join(rows, sql`, `)}) as used (id, at) where api_keys.id = used.id`,
        )
        // Told again with the next use; nothing depends on it.
        .catch(() => {})
    })
    return this.#writing
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#writeLastUsed()
  }
}

const CONFIGURED: Principal = {
  organisation: FIRST_ORGANISATION,
  key: CONFIGURED_KEY,
  scopes: ALL_SCOPES,
  limits: {},
}

function fallBack(error: unknown, known: Known, age: number): Known {
  if (known.principal !== null && age < OUTAGE_MS) return known
  throw error
}
