import { timingSafeEqual } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { eq, sql } from 'drizzle-orm'
import { LRUCache } from 'lru-cache'
import { type Database, tables } from '../storage/index.ts'
import { AddressBudgets } from './address-budgets.ts'
import { hashOf, isApiKey, type Scope } from './api-key.ts'
import { ALL_SCOPES, CONFIGURED_KEY, FIRST_ORGANISATION, type Principal } from './principal.ts'
import type { Clock } from './rate-limits.ts'

const { apiKeys, organisations } = tables

/** Who holds which key. */
export interface ApiKeys {
  /**
   * The key's owner; null for a key that nobody holds.
   * @param address that shows it.
   * @throws ApiError 503 when that cannot be told now, 429 when the address has asked for too many that nobody holds.
   */
  authenticate(key: string, address: string): Principal | null | Promise<Principal | null>
}

interface Known {
  readonly principal: Principal
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
/** A key that is known waits so long for a database that hangs, and after a question that failed, not for the next. */
const PATIENCE_MS = 1_000
const AWAY_MS = 5_000
/** A key that nobody holds is not asked about again for this long: keys are made before they are used, and never come back. */
const UNKNOWN_MS = 60_000
/** Keys that are remembered: so many that are held, and so many that are not. */
const MAX_KNOWN = 20_000
const LAST_USED_MS = 5_000

/** Authenticates from memory, and keeps what it remembers close to the database. */
export class Authenticator implements ApiKeys {
  readonly #database: Database
  readonly #configured: Buffer | null
  readonly #budgets: AddressBudgets
  readonly #known = new LRUCache<string, Known>({ max: MAX_KNOWN })
  /** Keys that the database did not know. */
  readonly #unknown = new LRUCache<string, true>({ max: MAX_KNOWN, ttl: UNKNOWN_MS })
  readonly #asking = new Map<string, Promise<Known | null>>()
  /** Unix milliseconds, by the key's id; not yet in the database. */
  readonly #lastUsed = new Map<string, number>()
  readonly #timer: NodeJS.Timeout
  #writing: Promise<void> = Promise.resolve()
  /** When a question last failed, by the monotonic clock. */
  #failedAt = Number.NEGATIVE_INFINITY

  /** @param configured a key that the configuration fixes, if any. It may do everything for the first organisation. */
  constructor(database: Database, configured: string | null, clock?: Clock) {
    this.#database = database
    this.#budgets = new AddressBudgets(clock)
    this.#configured = configured === null ? null : Buffer.from(hashOf(configured))
    this.#timer = setInterval(() => void this.#writeLastUsed(), LAST_USED_MS)
    this.#timer.unref()
  }

  /**
   * Keys are compared and looked up by their hashes only: what a client can find out from times is about a hash that it
   * cannot choose.
   */
  authenticate(key: string, address: string): Principal | null | Promise<Principal | null> {
    const hash = hashOf(key)
    const remembered = this.#known.get(hash)
    if (!remembered) {
      if (this.#configured && timingSafeEqual(this.#configured, Buffer.from(hash))) return CONFIGURED
      if (!isApiKey(key) || this.#unknown.has(hash)) return null
      return this.#budgets.ask(address, () => this.#ask(hash)).then((told) => this.#holder(told))
    }
    const known = this.#refresh(hash, remembered)
    return known instanceof Promise ? known.then((told) => this.#holder(told)) : this.#holder(known)
  }

  #holder(known: Known | null): Principal | null {
    const now = Date.now()
    if (known === null || now >= known.expiresAt) return null
    this.#lastUsed.set(known.principal.key, now)
    return known.principal
  }

  #refresh(hash: string, known: Known): Known | Promise<Known | null> {
    const now = performance.now()
    const age = now - known.since
    if (age < FRESH_MS) return known
    const asked = this.#ask(hash)
    if (age >= OUTAGE_MS) return asked
    const answered = asked.catch(() => known)
    if (age < STALE_MS || now - this.#failedAt < AWAY_MS) return known
    return within(PATIENCE_MS, answered, known)
  }

  /** One question at a time about each key. */
  #ask(hash: string): Promise<Known | null> {
    let asked = this.#asking.get(hash)
    if (!asked) {
      asked = this.#read(hash)
        .catch((error: unknown) => {
          this.#failedAt = performance.now()
          throw error
        })
        .finally(() => this.#asking.delete(hash))
      this.#asking.set(hash, asked)
    }
    return asked
  }

  async #read(hash: string): Promise<Known | null> {
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
    if (!row || row.revoked) {
      this.#known.delete(hash)
      this.#unknown.set(hash, true, { start: since })
      return null
    }
    const principal: Principal = {
      organisation: row.organisation,
      key: row.id,
      scopes: row.scopes.includes('admin') ? ALL_SCOPES : new Set(row.scopes as Scope[]),
      limits: row.limits,
    }
    const known = { principal, expiresAt: row.expiresAt?.getTime() ?? Number.POSITIVE_INFINITY, since }
    this.#known.set(hash, known)
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

async function within<Result>(milliseconds: number, work: Promise<Result>, otherwise: Result): Promise<Result> {
  const waiting = new AbortController()
  const late = delay(milliseconds, otherwise, { signal: waiting.signal })
  late.catch(() => {})
  try {
    return await Promise.race([work, late])
  } finally {
    waiting.abort()
  }
}
