import type { Principal } from '../accounts/principal.ts'
import { SortedIds } from '../files/file-id.ts'
import type { Files, StoredFile } from '../files/files.ts'
import { ApiError } from '../lib/errors/errors.ts'
import type { SecretBox } from '../lib/secrets/secret-box.ts'
import type { ByteRange } from '../storage/blob-store.ts'
import type { Database, Queries, Transaction } from '../storage/database.ts'
import { and, asc, count, desc, eq, gt, isNull, lt, type SQL, sql } from '../storage/drizzle.ts'
import * as tables from '../storage/schema.ts'
import { EventLog } from './events/event-log.ts'
import { EVENT_TYPES, type EventType, endedEvent, NOTHING_SEEN } from './events/watch-events.ts'
import { readMemory } from './events/watch-memory.ts'
import type { WatchSettings } from './watch-settings.ts'
import { newSecret, type WebhookReport, type WebhookSettings } from './webhooks/webhook.ts'

const { watches, watchDeliveries, watchEvents, watchWebhooks, organisations } = tables

/** A watch, as its organisation sees it. */
export interface Watch {
  readonly id: string
  readonly createdAt: Date
  readonly settings: WatchSettings
  readonly paused: boolean
  /** Number of its last event; 0 before the first one. */
  readonly seq: number
  readonly webhook: WebhookReport | null
  /** The name of the server that runs it; null for none. */
  readonly heldBy: string | null
  /** Whether a client has sent that server a frame recently, so that it expects more. */
  readonly isFed: boolean
  /** Whether `watch.offline` was reported, and no frame has been seen since. */
  readonly isOffline: boolean
}

/** A watch that was just made or changed. */
export interface MadeWatch {
  readonly watch: Watch
  /** The secret that was generated for its webhook, if any. It is shown only once. */
  readonly secret: string | null
}

export interface StoredEvent {
  readonly seq: number
  /** JSON, as clients get it. */
  readonly body: string
}

/** The frame or the clip of an event. */
interface KeptFile extends StoredFile {
  /** Null if the bytes are missing. */
  read(range: ByteRange | null): ReturnType<Files['read']>
}

type WatchFiles = Pick<Files, 'delete' | 'find' | 'read'>

export function isWatchId(text: string): boolean {
  return /^watch_[0-9A-Za-z]{22}$/.test(text)
}

/** Creates, reads, changes and deletes watches for clients. `WatchRunner` runs them. */
export class Watches {
  readonly #database: Database
  readonly #files: WatchFiles
  readonly #most: number
  readonly #secrets: SecretBox
  readonly #ids = new SortedIds('watch_')
  readonly #log = new EventLog()

  /** @param most watches that one organisation may have. */
  constructor(
    database: Database,
    files: WatchFiles,
    { most, secrets }: { readonly most: number; readonly secrets: SecretBox },
  ) {
    this.#database = database
    this.#files = files
    this.#most = most
    this.#secrets = secrets
  }

  /** @throws ApiError 429 if the organisation has as many watches as it may. */
  async create(
    { organisation, key }: Principal,
    settings: WatchSettings,
    webhook: WebhookSettings | null,
  ): Promise<MadeWatch> {
    const { id, createdAt } = this.#ids.next()
    return this.#database.transaction(async (transaction) => {
      // Locks the organisation, so that concurrent requests cannot exceed the limit together.
      await transaction
        .select({ id: organisations.id })
        .from(organisations)
        .where(eq(organisations.id, organisation))
        .for('update')
      const [known] = await transaction.select({ count: count() }).from(watches).where(isOwned(organisation))
      if (known!.count >= this.#most) {
        throw new ApiError(`An organisation may have ${this.#most} watches here; delete one to make room`, {
          ...{ status: 429, type: 'rate_limit_error', code: 'watch_limit_exceeded' },
        })
      }
      await transaction
        .insert(watches)
        .values({ organisationId: organisation, id, keyId: key, settings: JSON.stringify(settings), createdAt })
      return this.#made(transaction, organisation, id, webhook ?? undefined)
    })
  }

  async #made(
    transaction: Transaction,
    organisation: string,
    id: string,
    webhook: WebhookSettings | null | undefined,
  ): Promise<MadeWatch> {
    const secret = webhook === undefined ? null : await setWebhook(transaction, id, webhook, this.#secrets)
    const [row] = await shown(transaction).where(isWatch(organisation, id))
    return { watch: toWatch(row!), secret }
  }

  /** Null when the organisation has no watch with this id. */
  async find(organisation: string, id: string): Promise<Watch | null> {
    if (!isWatchId(id)) return null
    const [row] = await this.#database.use((queries) => shown(queries).where(isWatch(organisation, id)))
    return row === undefined ? null : toWatch(row)
  }

  /** Lists up to `limit` watches, newest first, that come after the one with the id `after`. */
  async list(
    organisation: string,
    { after, limit }: { readonly after: string | null; readonly limit: number },
  ): Promise<{ watches: Watch[]; hasMore: boolean }> {
    const owned = isOwned(organisation)
    const rows = await this.#database.use((queries) =>
      shown(queries)
        .where(after === null ? owned : and(owned, lt(watches.id, after)))
        .orderBy(desc(watches.id))
        .limit(limit + 1),
    )
    return { watches: rows.slice(0, limit).map(toWatch), hasMore: rows.length > limit }
  }

  /**
   * The configured cameras that the organisation's running watches use, on any server, and whether they deliver frames.
   */
  async heldCameras(organisation: string): Promise<ReadonlyMap<string, boolean>> {
    const rows = await this.#database.use((queries) =>
      shown(queries).where(and(isOwned(organisation), sql`${watches.leasedUntil} > now()`)),
    )
    const held = new Map<string, boolean>()
    for (const found of rows) {
      const { settings, isOffline } = toWatch(found)
      const { source } = settings
      // Before the first look, it is not known whether frames arrive.
      const delivers = !isOffline && found.row.seenAt !== null
      if (source.type === 'camera') held.set(source.camera, delivers || held.get(source.camera) === true)
    }
    return held
  }

  /**
   * Concurrent changes are applied one after the other.
   * @param webhook null to remove it; undefined to keep it.
   */
  async change(
    organisation: string,
    id: string,
    change: (settings: WatchSettings) => WatchSettings,
    webhook: WebhookSettings | null | undefined,
  ): Promise<MadeWatch | null> {
    if (!isWatchId(id)) return null
    return this.#database.transaction(async (transaction) => {
      const [row] = await transaction.select().from(watches).where(isWatch(organisation, id)).for('update')
      if (row === undefined) return null
      const settings = JSON.stringify(change(JSON.parse(row.settings)))
      await transaction
        .update(watches)
        .set({ settings, version: row.version + 1 })
        .where(eq(watches.id, id))
      return this.#made(transaction, organisation, id, webhook)
    })
  }

  async pause(organisation: string, id: string, paused: boolean): Promise<Watch | null> {
    if (!isWatchId(id)) return null
    await this.#database.use((queries) => queries.update(watches).set({ paused }).where(isWatch(organisation, id)))
    return this.find(organisation, id)
  }

  /**
   * Deletes a watch with its events, frames and clips. Its row stays for a while, so that clients that follow it still
   * get the end of its open events.
   * @returns false when there is none.
   */
  async delete(organisation: string, id: string): Promise<boolean> {
    if ((await this.find(organisation, id)) === null) return false
    await this.#deleteFiles(organisation, id)
    const isDeleted = await this.#database.transaction(async (transaction) => {
      const [row] = await transaction.select().from(watches).where(isWatch(organisation, id)).for('update')
      if (row === undefined) return false
      const settings: WatchSettings = JSON.parse(row.settings)
      const now = { at: performance.now(), time: Date.now() }
      const events = readMemory(row.memory, settings.questions, now)
        .tracked.filter(({ happening }) => happening !== null)
        .map((tracked) => endedEvent(tracked, NOTHING_SEEN, { endedAt: now.time, reason: 'deleted' }))
      const seq = await this.#log.append(transaction, { id, seq: row.seq, settings }, events)
      // Without the lease, the server that runs it can store nothing more.
      const deleted = { seq, deletedAt: tables.now, lease: null, leasedUntil: null }
      await transaction.update(watches).set(deleted).where(eq(watches.id, id))
      return true
    })
    // Files of a look that ended meanwhile.
    await this.#deleteFiles(organisation, id)
    return isDeleted
  }

  async #deleteFiles(organisation: string, id: string): Promise<void> {
    const kept = await this.#database.use((queries) =>
      queries
        .select({ file: watchEvents.fileId, clip: watchEvents.clip })
        .from(watchEvents)
        .where(and(eq(watchEvents.watchId, id), sql`coalesce(${watchEvents.fileId}, ${watchEvents.clip}) is not null`)),
    )
    const files = new Set(kept.flatMap(({ file, clip }) => [file, clip]))
    for (const file of files) if (file !== null) await this.#files.delete(organisation, file)
  }

  /** Events with numbers above `after`, in order. The caller has checked that the organisation owns the watch. */
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

  /**
   * The frame or the clip of an event; null if it has none. The caller has checked that the organisation owns the
   * watch.
   */
  async fileOf(
    organisation: string,
    id: string,
    { seq, kind }: { readonly seq: number; readonly kind: 'frame' | 'clip' },
    signal: AbortSignal,
  ): Promise<KeptFile | null> {
    const [event] = await this.#database.use((queries) =>
      queries
        .select({ frame: watchEvents.fileId, clip: watchEvents.clip })
        .from(watchEvents)
        .where(and(eq(watchEvents.watchId, id), eq(watchEvents.seq, seq))),
    )
    const named = event?.[kind]
    const file = named ? await this.#files.find(organisation, named) : null
    return file && { ...file, read: (range) => this.#files.read(organisation, file.id, range, signal) }
  }
}

function isOwned(organisation: string): SQL {
  return and(eq(watches.organisationId, organisation), isNull(watches.deletedAt))!
}

function isWatch(organisation: string, id: string): SQL {
  return and(eq(watches.id, id), isOwned(organisation))!
}

/** @returns the secret that was generated; null if the client gave one, or the webhook keeps the one that it has. */
async function setWebhook(
  transaction: Transaction,
  watchId: string,
  webhook: WebhookSettings | null,
  secrets: SecretBox,
): Promise<string | null> {
  if (webhook === null) {
    await transaction.delete(watchWebhooks).where(eq(watchWebhooks.watchId, watchId))
    await transaction.delete(watchDeliveries).where(eq(watchDeliveries.watchId, watchId))
    return null
  }
  const made = newSecret()
  const { url, types = EVENT_TYPES, secret: given } = webhook
  const secret = secrets.seal(given ?? made, watchId)
  const changed = { url, types: [...types], endedAt: null, error: null, ...(given !== undefined && { secret }) }
  const [row] = await transaction
    .insert(watchWebhooks)
    .values({ watchId, secret, ...changed })
    .onConflictDoUpdate({ target: watchWebhooks.watchId, set: changed })
    .returning({ secret: watchWebhooks.secret })
  return given === undefined && row!.secret === secret ? made : null
}

/** Selects watches with everything that clients see of them. */
function shown(queries: Queries) {
  const columns = {
    row: watches,
    webhook: watchWebhooks,
    pending: sql<number>`(select count(*)::float8 from watch_deliveries where watch_id = ${watches.id})`,
    heldBy: sql<string | null>`case when ${watches.leasedUntil} > now() then ${watches.lease} end`,
    isFed: sql<boolean>`coalesce(${watches.fedUntil} > now(), false)`,
  }
  return queries.select(columns).from(watches).leftJoin(watchWebhooks, eq(watchWebhooks.watchId, watches.id))
}

function toWatch({ row, webhook, pending, heldBy, isFed }: Awaited<ReturnType<typeof shown>>[number]): Watch {
  const { id, createdAt, paused, seq } = row
  const settings: WatchSettings = JSON.parse(row.settings)
  const isOffline = readMemory(row.memory, [], { at: 0, time: 0 }).offlineSince !== null
  const hook = webhook && {
    url: webhook.url,
    types: webhook.types as EventType[],
    status: webhook.endedAt === null ? ('active' as const) : ('ended' as const),
    pending: webhook.endedAt === null ? pending : 0,
    lastError: webhook.error,
  }
  return { id, createdAt, settings, paused, seq, webhook: hook, heldBy, isFed, isOffline }
}
