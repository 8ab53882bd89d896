import type { Principal } from '../accounts/principal.ts'
import { SortedIds } from '../files/file-id.ts'
import type { Files } from '../files/files.ts'
import { ApiError } from '../lib/errors.ts'
import type { Database } from '../storage/database.ts'
import { and, asc, count, desc, eq, gt, lt, type SQL, sql } from '../storage/drizzle.ts'
import * as tables from '../storage/schema.ts'
import type { WatchSettings } from './watch-settings.ts'

const { watches, watchEvents, organisations } = tables

/** A watch as its organisation has it. */
export interface Watch {
  readonly id: string
  readonly createdAt: Date
  readonly settings: WatchSettings
  readonly paused: boolean
  /** Of its last event; 0 before the first one. */
  readonly seq: number
}

export interface StoredEvent {
  readonly seq: number
  /** JSON, as clients get it. */
  readonly body: string
}

export function isWatchId(text: string): boolean {
  return /^watch_[0-9A-Za-z]{22}$/.test(text)
}

/** The watches of organisations: what clients make, read, change and delete. `WatchRunner` does the rest. */
export class Watches {
  readonly #database: Database
  readonly #files: Pick<Files, 'delete'>
  readonly #most: number
  readonly #ids = new SortedIds('watch_')

  /** @param most watches of one organisation. */
  constructor(database: Database, files: Pick<Files, 'delete'>, most: number) {
    this.#database = database
    this.#files = files
    this.#most = most
  }

  /** @throws ApiError 429 for one more than an organisation may have. */
  async create({ organisation, key }: Principal, settings: WatchSettings): Promise<Watch> {
    const { id, createdAt } = this.#ids.next()
    return this.#database.transaction(async (transaction) => {
      // Of requests at the same time, only one counts at a time.
      await transaction
        .select({ id: organisations.id })
        .from(organisations)
        .where(eq(organisations.id, organisation))
        .for('update')
      const [known] = await transaction
        .select({ count: count() })
        .from(watches)
        .where(eq(watches.organisationId, organisation))
      if (known!.count >= this.#most) {
        throw new ApiError(`An organisation may have ${this.#most} watches here; delete one to make room`, {
          ...{ status: 429, type: 'rate_limit_error', code: 'watch_limit_exceeded' },
        })
      }
      const [row] = await transaction
        .insert(watches)
        .values({ organisationId: organisation, id, keyId: key, settings: JSON.stringify(settings), createdAt })
        .returning()
      return toWatch(row!)
    })
  }

  /** Null when the organisation has no watch with this id. */
  async find(organisation: string, id: string): Promise<Watch | null> {
    if (!isWatchId(id)) return null
    const [row] = await this.#database.use((queries) => queries.select().from(watches).where(isWatch(organisation, id)))
    return row === undefined ? null : toWatch(row)
  }

  /** Lists up to `limit` watches, newest first, that come after the one with the id `after`. */
  async list(
    organisation: string,
    { after, limit }: { readonly after: string | null; readonly limit: number },
  ): Promise<{ watches: Watch[]; hasMore: boolean }> {
    const owned = eq(watches.organisationId, organisation)
    const rows = await this.#database.use((queries) =>
      queries
        .select()
        .from(watches)
        .where(after === null ? owned : and(owned, lt(watches.id, after)))
        .orderBy(desc(watches.id))
        .limit(limit + 1),
    )
    return { watches: rows.slice(0, limit).map(toWatch), hasMore: rows.length > limit }
  }

  /** Changes at the same time are made one after the other. */
  async change(
    organisation: string,
    id: string,
    change: (settings: WatchSettings) => WatchSettings,
  ): Promise<Watch | null> {
    if (!isWatchId(id)) return null
    return this.#database.transaction(async (transaction) => {
      const [row] = await transaction.select().from(watches).where(isWatch(organisation, id)).for('update')
      if (row === undefined) return null
      const settings = JSON.stringify(change(JSON.parse(row.settings)))
      const [changed] = await transaction
        .update(watches)
        .set({ settings, version: row.version + 1 })
        .where(eq(watches.id, id))
        .returning()
      return toWatch(changed!)
    })
  }

  async pause(organisation: string, id: string, paused: boolean): Promise<Watch | null> {
    if (!isWatchId(id)) return null
    const [row] = await this.#database.use((queries) =>
      queries.update(watches).set({ paused }).where(isWatch(organisation, id)).returning(),
    )
    return row === undefined ? null : toWatch(row)
  }

  /** Deletes a watch with its events and their frames. @returns false when there is none. */
  async delete(organisation: string, id: string): Promise<boolean> {
    if ((await this.find(organisation, id)) === null) return false
    const shown = await this.#database.use((queries) =>
      queries
        .select({ id: watchEvents.fileId })
        .from(watchEvents)
        .where(and(eq(watchEvents.watchId, id), sql`${watchEvents.fileId} is not null`)),
    )
    for (const { id: file } of shown) await this.#files.delete(organisation, file!)
    const rows = await this.#database.use((queries) =>
      queries.delete(watches).where(isWatch(organisation, id)).returning({ id: watches.id }),
    )
    return rows.length === 1
  }

  /** Events after one, in order. The watch is one of the organisation's. */
  events(id: string, { after, limit }: { readonly after: number; readonly limit: number }): Promise<StoredEvent[]> {
    return this.#database.use((queries) =>
      queries
        .select({ seq: watchEvents.seq, body: watchEvents.body })
        .from(watchEvents)
        .where(and(eq(watchEvents.watchId, id), gt(watchEvents.seq, after)))
        .orderBy(asc(watchEvents.seq))
        .limit(limit),
    )
  }
}

function isWatch(organisation: string, id: string): SQL {
  return and(eq(watches.id, id), eq(watches.organisationId, organisation))!
}

function toWatch({ id, createdAt, settings, paused, seq }: typeof watches.$inferSelect): Watch {
  return { id, createdAt, settings: JSON.parse(settings), paused, seq }
}
