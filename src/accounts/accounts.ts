import { randomBytes } from 'node:crypto'
import type { Database, Transaction } from '../storage/database.ts'
import { and, asc, eq, isNull, sql } from '../storage/drizzle.ts'
import type { OrganisationLimits } from '../storage/schema.ts'
import * as tables from '../storage/schema.ts'
import { hashOf, newApiKey, SCOPES, type Scope, visiblePart } from './api-key.ts'
import { FIRST_ORGANISATION } from './principal.ts'

const { organisations, apiKeys } = tables

export type Organisation = Readonly<typeof organisations.$inferSelect>

type KeyRow = typeof apiKeys.$inferSelect

/** A key, without the secret. */
export interface ApiKey extends Readonly<Omit<KeyRow, 'organisationId' | 'hash' | 'scopes'>> {
  readonly organisation: string
  readonly scopes: readonly Scope[]
}

export interface NewApiKey {
  readonly organisation: string
  readonly name?: string
  readonly scopes?: readonly Scope[]
  readonly expiresAt?: Date | null
}

/** A request of the operator that cannot be carried out. The message is one line for the operator. */
class AccountError extends Error {
  override readonly name = 'AccountError'
}

const ORGANISATION = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/** Organisations and their keys, as the operator manages them. */
export class Accounts {
  readonly #database: Database

  constructor(database: Database) {
    this.#database = database
  }

  /** @throws AccountError when the name is invalid or taken. */
  async createOrganisation(id: string, limits: OrganisationLimits = {}): Promise<Organisation> {
    if (!ORGANISATION.test(id)) {
      throw new AccountError(`'${id}' is not a valid organisation name: expected up to 63 of a-z, 0-9 and -`)
    }
    const [created] = await this.#database.use((queries) =>
      queries.insert(organisations).values({ id, limits }).onConflictDoNothing().returning(),
    )
    if (!created) throw new AccountError(`Organisation '${id}' already exists`)
    return created
  }

  listOrganisations(): Promise<Organisation[]> {
    return this.#database.use((queries) => queries.select().from(organisations).orderBy(asc(organisations.id)))
  }

  /** Replaces the limits. @throws AccountError when the organisation does not exist. */
  async setLimits(id: string, change: (limits: OrganisationLimits) => OrganisationLimits): Promise<Organisation> {
    return this.#database.transaction(async (transaction) => {
      const [known] = await transaction.select().from(organisations).where(eq(organisations.id, id)).for('update')
      if (!known) throw new AccountError(`Organisation '${id}' does not exist`)
      const limits = change(known.limits)
      await transaction.update(organisations).set({ limits }).where(eq(organisations.id, id))
      return { ...known, limits }
    })
  }

  /** Makes all its keys invalid. Its files stay. @throws AccountError when the organisation does not exist. */
  async revokeOrganisation(id: string): Promise<void> {
    const [revoked] = await this.#database.use((queries) =>
      queries
        .update(organisations)
        .set({ revokedAt: sql`coalesce(${organisations.revokedAt}, now())` })
        .where(eq(organisations.id, id))
        .returning({ id: organisations.id }),
    )
    if (!revoked) throw new AccountError(`Organisation '${id}' does not exist`)
  }

  /** @returns the key, which cannot be read again. @throws AccountError when the organisation does not exist. */
  async createKey(wanted: NewApiKey): Promise<{ key: string; about: ApiKey }> {
    return this.#database.transaction(async (transaction) => {
      const [owner] = await transaction
        .select({ revokedAt: organisations.revokedAt })
        .from(organisations)
        .where(eq(organisations.id, wanted.organisation))
      if (!owner) throw new AccountError(`Organisation '${wanted.organisation}' does not exist`)
      if (owner.revokedAt) throw new AccountError(`Organisation '${wanted.organisation}' is revoked`)
      return insertKey(transaction, wanted)
    })
  }

  /** @throws AccountError when the organisation does not exist: a misspelt one would have no keys and no usage. */
  async checkOrganisation(id: string): Promise<void> {
    const [known] = await this.#database.use((queries) =>
      queries.select({ id: organisations.id }).from(organisations).where(eq(organisations.id, id)),
    )
    if (!known) throw new AccountError(`Organisation '${id}' does not exist`)
  }

  /**
   * Keys of a revoked organisation are listed as revoked.
   * @throws AccountError when the organisation does not exist.
   */
  async listKeys(organisation: string | null = null): Promise<ApiKey[]> {
    if (organisation !== null) await this.checkOrganisation(organisation)
    const rows = await this.#database.use((queries) =>
      queries
        .select({ key: apiKeys, organisationRevokedAt: organisations.revokedAt })
        .from(apiKeys)
        .innerJoin(organisations, eq(organisations.id, apiKeys.organisationId))
        .where(organisation === null ? undefined : eq(apiKeys.organisationId, organisation))
        .orderBy(asc(apiKeys.organisationId), asc(apiKeys.createdAt)),
    )
    return rows.map(({ key, organisationRevokedAt }) =>
      toApiKey({ ...key, revokedAt: key.revokedAt ?? organisationRevokedAt }),
    )
  }

  /** @throws AccountError when the key does not exist or is already revoked. */
  async revokeKey(id: string): Promise<ApiKey> {
    const [revoked] = await this.#database.use((queries) =>
      queries
        .update(apiKeys)
        .set({ revokedAt: tables.now })
        .where(and(eq(apiKeys.id, id), isNull(apiKeys.revokedAt)))
        .returning(),
    )
    if (!revoked) throw new AccountError(`Key '${id}' does not exist or is already revoked; see 'lookout keys list'`)
    return toApiKey(revoked)
  }

  /** Creates the organisation that the configured key belongs to, if it does not exist. */
  async ensureFirstOrganisation(): Promise<void> {
    await this.#database.use((queries) =>
      queries.insert(organisations).values({ id: FIRST_ORGANISATION }).onConflictDoNothing(),
    )
  }

  /**
   * Creates a key, and its organisation, if the database has no key.
   * @param keep stores the key where its owner finds it. If that fails, no key is created.
   * @returns the key; null if there already was one.
   */
  async createFirstKey(keep: (key: string) => Promise<void>): Promise<string | null> {
    await this.ensureFirstOrganisation()
    return this.#database.transaction(async (transaction) => {
      // Only one of several servers that start together creates the key.
      await transaction
        .select({ id: organisations.id })
        .from(organisations)
        .where(eq(organisations.id, FIRST_ORGANISATION))
        .for('update')
      const [known] = await transaction.select({ id: apiKeys.id }).from(apiKeys).limit(1)
      if (known) return null
      const { key } = await insertKey(transaction, { organisation: FIRST_ORGANISATION, name: 'first' })
      await keep(key)
      return key
    })
  }
}

async function insertKey(transaction: Transaction, wanted: NewApiKey): Promise<{ key: string; about: ApiKey }> {
  const key = newApiKey()
  const [row] = await transaction
    .insert(apiKeys)
    .values({
      id: `key-${randomBytes(8).toString('hex')}`,
      organisationId: wanted.organisation,
      name: wanted.name ?? '',
      prefix: visiblePart(key),
      hash: hashOf(key),
      scopes: [...(wanted.scopes ?? SCOPES.filter((scope) => scope !== 'admin'))],
      expiresAt: wanted.expiresAt ?? null,
    })
    .returning()
  return { key, about: toApiKey(row!) }
}

function toApiKey({ organisationId, hash: _hash, scopes, ...row }: KeyRow): ApiKey {
  return { ...row, organisation: organisationId, scopes: scopes as Scope[] }
}
