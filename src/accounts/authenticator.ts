import { timingSafeEqual } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { getOrMake } from '../lib/get-or-make.ts'
import { withTimeout } from '../lib/with-timeout.ts'
import type { Database } from '../storage/database.ts'
import { and, eq, type SQL, sql } from '../storage/drizzle.ts'
import * as tables from '../storage/schema.ts'
import { AddressBudgets } from './address-budgets.ts'
import { hashOf, isApiKey, type Scope } from './api-key.ts'
import { ALL_SCOPES, CONFIGURED_KEY, FIRST_ORGANISATION, KEYLESS, type Principal, STUDIO_KEY } from './principal.ts'
import type { Clock } from './rate-limits.ts'

const { apiKeys, organisations } = tables

/** Finds the owners of keys. */
export interface ApiKeys {
  /**
   * Finds the owner of a key; null when the key is not valid.
   * @param address of the client.
   * @throws ApiError 503 when the database is unavailable, 429 when the address has tried too many unknown keys.
   */
  authenticate(key: string, address: string): Principal | null | Promise<Principal | null>
  /** The principal of requests without a key, where these are allowed. */
  keyless(): Principal | Promise<Principal>
}

/** Finds the owners of keys for work that is done later. */
export interface KeyOwners {
  /**
   * The owner of a key, by the id of the key; null when it is revoked or has expired.
   * @returns 'elsewhere' for a key that is in no database and that this process does not have.
   * @throws ApiError 503 when the database is unavailable.
   */
  ownerOf(key: string, organisation: string): Promise<Principal | null | 'elsewhere'>
}

/** A key that is in no database: it has every scope, for the first organisation, as long as the process runs. */
export interface ProcessKey {
  readonly id: string
  readonly key: string
}

interface Read {
  /** When it was read from the database, by the monotonic clock. */
  readonly since: number
}

interface Known extends Read {
  readonly principal: Principal
  /** Unix milliseconds. */
  readonly expiresAt: number
}

interface KnownLimits extends Read {
  readonly limits: Principal['limits']
}

/** An entry up to this age is used without reading the database. */
const FRESH_MS = 1_000
/** An entry up to this age is used while it is refreshed, so a key revoked by another process ends within this time. */
const STALE_MS = 3_000
/** While the database is unavailable, entries up to this age stay valid: no key can be revoked then. */
const OUTAGE_MS = 600_000
/** A known key waits this long for a database that hangs, and not at all for `AWAY_MS` after a failed read. */
const PATIENCE_MS = 1_000
const AWAY_MS = 5_000
/** An unknown key is not looked up again for this long: keys are created before they are used, and never restored. */
const UNKNOWN_MS = 60_000
/** Most known keys, and most unknown keys, to remember. */
const MAX_KNOWN = 20_000
const LAST_USED_MS = 5_000

/** Authenticates keys from a cache that it keeps close to the database. */
export class Authenticator implements ApiKeys, KeyOwners {
  readonly #database: Database
  readonly #own: readonly { readonly hash: Buffer; readonly principal: Principal }[]
  readonly #budgets: AddressBudgets
  readonly #known = new LRUCache<string, Known>({ max: MAX_KNOWN })
  /** Keys that the database did not know. */
  readonly #unknown = new LRUCache<string, true>({ max: MAX_KNOWN, ttl: UNKNOWN_MS })
  readonly #pending = new Map<string, Promise<Known | null>>()
  /** Limits of the first organisation, for keys that are in no database. None are known before the first request. */
  #limits: KnownLimits = { limits: {}, since: -STALE_MS }
  #pendingLimits: Promise<KnownLimits> | null = null
  /** Unix milliseconds by key id, not yet in the database. */
  readonly #lastUsed = new Map<string, number>()
  readonly #timer: NodeJS.Timeout
  #writing: Promise<void> = Promise.resolve()
  /** When a read last failed, by the monotonic clock. */
  #failedAt = Number.NEGATIVE_INFINITY

  constructor(database: Database, own: readonly ProcessKey[], clock?: Clock) {
    this.#database = database
    this.#budgets = new AddressBudgets(clock)
    this.#own = own.map(({ id, key }) => ({
      hash: Buffer.from(hashOf(key)),
      principal: { organisation: FIRST_ORGANISATION, key: id, scopes: ALL_SCOPES, limits: {} },
    }))
    this.#timer = setInterval(() => void this.#writeLastUsed(), LAST_USED_MS)
    this.#timer.unref()
  }

  /**
   * Keys are compared and looked up by hash only: timing can reveal something about a hash, which the client cannot
   * choose, but not about a key.
   */
  authenticate(key: string, address: string): Principal | null | Promise<Principal | null> {
    const hash = hashOf(key)
    const remembered = this.#known.get(hash)
    if (!remembered) {
      const own = this.#own.find((one) => timingSafeEqual(one.hash, Buffer.from(hash)))
      if (own) return this.#limited(own.principal)
      if (!isApiKey(key) || this.#unknown.has(hash)) return null
      return this.#budgets.attempt(address, () => this.#lookUp(hash)).then((found) => this.#owner(found))
    }
    const known = this.#refresh(remembered, OUTAGE_MS, () => this.#lookUp(hash))
    return known instanceof Promise ? known.then((found) => this.#owner(found)) : this.#owner(known)
  }

  keyless(): Principal | Promise<Principal> {
    return this.#limited(KEYLESS)
  }

  async ownerOf(key: string, organisation: string): Promise<Principal | null | 'elsewhere'> {
    if (key === CONFIGURED_KEY || key === STUDIO_KEY) {
      const own = this.#own.find(({ principal }) => principal.key === key)
      return own ? this.#limited(own.principal) : 'elsewhere'
    }
    const row = await this.#find(and(eq(apiKeys.id, key), eq(apiKeys.organisationId, organisation))!)
    return row === null || row.expiresAt <= Date.now() ? null : row.principal
  }

  #owner(known: Known | null): Principal | null {
    const now = Date.now()
    if (known === null || now >= known.expiresAt) return null
    this.#lastUsed.set(known.principal.key, now)
    return known.principal
  }

  /**
   * A principal of the first organisation with its limits; while the database is unavailable, with the last known ones.
   */
  #limited(principal: Principal): Principal | Promise<Principal> {
    const known = this.#refresh(this.#limits, Number.POSITIVE_INFINITY, () => this.#lookUpLimits())
    return known instanceof Promise
      ? known.then(({ limits }) => ({ ...principal, limits }))
      : { ...principal, limits: known.limits }
  }

  /**
   * The cached value, or a new one from the database. It waits for the database only if the cached value is old, and
   * not long.
   * @param outageMs age up to which the cached value stays valid while the database is unavailable.
   */
  #refresh<Value extends Read, Latest extends Value | null>(
    known: Value,
    outageMs: number,
    lookUp: () => Promise<Latest>,
  ): Value | Promise<Value | Latest> {
    const now = performance.now()
    const age = now - known.since
    if (age < FRESH_MS) return known
    const latest = lookUp()
    if (age >= outageMs) return latest
    const latestOrKnown = latest.catch(() => known)
    if (age < STALE_MS || now - this.#failedAt < AWAY_MS) return known
    return withTimeout(PATIENCE_MS, latestOrKnown, known)
  }

  /** Reads a key from the database, once for all concurrent requests. */
  #lookUp(hash: string): Promise<Known | null> {
    return getOrMake(this.#pending, hash, () => this.#noted(this.#read(hash)).finally(() => this.#pending.delete(hash)))
  }

  #lookUpLimits(): Promise<KnownLimits> {
    this.#pendingLimits ??= this.#noted(this.#readLimits()).finally(() => {
      this.#pendingLimits = null
    })
    return this.#pendingLimits
  }

  /** Records the time of a read that fails. */
  #noted<Result>(reading: Promise<Result>): Promise<Result> {
    return reading.catch((error: unknown) => {
      this.#failedAt = performance.now()
      throw error
    })
  }

  async #readLimits(): Promise<KnownLimits> {
    const since = performance.now()
    const [row] = await this.#database.use((queries) =>
      queries
        .select({ limits: organisations.limits })
        .from(organisations)
        .where(eq(organisations.id, FIRST_ORGANISATION)),
    )
    this.#limits = { limits: row?.limits ?? {}, since }
    return this.#limits
  }

  async #read(hash: string): Promise<Known | null> {
    const since = performance.now()
    const found = await this.#find(eq(apiKeys.hash, hash))
    if (found === null) {
      this.#known.delete(hash)
      this.#unknown.set(hash, true, { start: since })
      return null
    }
    const known = { ...found, since }
    this.#known.set(hash, known)
    return known
  }

  async #find(condition: SQL): Promise<Omit<Known, 'since'> | null> {
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
        .where(condition),
    )
    if (!row || row.revoked) return null
    const principal: Principal = {
      organisation: row.organisation,
      key: row.id,
      scopes: row.scopes.includes('admin') ? ALL_SCOPES : new Set(row.scopes as Scope[]),
      limits: row.limits,
    }
    return { principal, expiresAt: row.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY }
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
        // The next use of the key updates it; nothing depends on it.
        .catch(() => {})
    })
    return this.#writing
  }

  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#writeLastUsed()
  }
}
