import type { Files, NewFile } from '../files/files.ts'
import type { Draft } from '../storage/blob-store.ts'
import type { Database, Transaction } from '../storage/database.ts'
import { and, eq, inArray, type SQL, sql } from '../storage/drizzle.ts'
import * as tables from '../storage/schema.ts'
import { EventLog, expiryOf } from './events/event-log.ts'
import {
  type ClipError,
  type ClipReport,
  clipEvent,
  type EventDraft,
  type FileError,
  type FrameAbout,
} from './events/watch-events.ts'
import type { WatchSettings } from './watch-settings.ts'

const { watches, watchEvents } = tables

/** A watch that this server runs. */
export interface HeldWatch {
  readonly id: string
  readonly organisationId: string
  readonly keyId: string
  readonly settings: WatchSettings
  readonly version: number
  readonly seq: number
  readonly memory: string | null
  readonly seenAt: Date | null
}

/** The state of a running watch that is stored. */
export interface Progress {
  /** Number of the last event that `memory` includes. */
  readonly seq: number
  readonly memory: string
  /** When the last frame was looked at, in Unix milliseconds; null before the first one. */
  readonly seenAt: number | null
}

/** The stored state of a watch that another server may take over. */
export interface HeldProgress extends Progress {
  /** For how many more milliseconds this server expects frames of clients; null if it has had none. */
  readonly fedMs: number | null
}

/** The findings of a look. */
export interface Told {
  readonly events: readonly EventDraft[]
  readonly memory: string
  /** As in `Progress`. */
  readonly seenAt: number | null
  /** The frame of the look; null if there was none. */
  readonly frame: FrameAbout | null
  /** The picture to store with events that start, or why it cannot be stored; null if none is wanted. */
  readonly picture: { readonly bytes: Uint8Array; readonly contentType: NewFile['contentType'] } | FileError | null
}

/** A clip that has been written. */
export interface ToldClip {
  readonly draft: Draft
  readonly bytes: number
  /** When its first and its last picture arrived, in ISO 8601. */
  readonly from: string
  readonly to: string
}

const EXPIRED_AT_ONCE = 1_000
/** How long a deleted watch stays, for clients that follow it to read its last events. */
const FAREWELL_SECONDS = 60

/**
 * Reads and writes running watches in a database that other servers may share. A server *leases* a watch and must renew
 * the lease: the watches of a server that died are free when it runs out. Every write requires the lease. An event, its
 * number and the new memory of the watch are stored in one transaction, before anything is sent.
 */
export class WatchDesk {
  readonly #database: Database
  readonly #files: Pick<Files, 'draft' | 'keepOutputs'>
  readonly #owner: string
  readonly #leaseSeconds: number
  readonly #log = new EventLog()

  /** @param owner name of this server, which changes with each start. */
  constructor(
    database: Database,
    files: Pick<Files, 'draft' | 'keepOutputs'>,
    { owner, leaseMs }: { readonly owner: string; readonly leaseMs: number },
  ) {
    this.#database = database
    this.#files = files
    this.#owner = owner
    this.#leaseSeconds = leaseMs / 1000
  }

  /** The watches that this server may run, oldest first. */
  open(): Promise<{ id: string; version: number }[]> {
    return this.#database.execute(sql`
      select id, version from watches
      where not paused and deleted_at is null and ${this.#isFree} order by id`)
  }

  /** Leases a watch, unless another server has it. */
  take(id: string): Promise<HeldWatch | null> {
    return this.#lease(id, this.#isFree)
  }

  /** Leases a watch that has received a frame here, unless another server has the lease and still expects frames. */
  takeOver(id: string): Promise<HeldWatch | null> {
    return this.#lease(id, sql`(${this.#isFree} or fed_until is null or fed_until <= now())`)
  }

  get #isFree(): SQL {
    return sql`(lease is null or lease = ${this.#owner} or leased_until <= now())`
  }

  async #lease(id: string, mayTake: SQL): Promise<HeldWatch | null> {
    const [row] = await this.#database.use((queries) =>
      queries
        .update(watches)
        .set({ lease: this.#owner, leasedUntil: this.#leaseEnd })
        .where(and(eq(watches.id, id), sql`not paused and deleted_at is null and ${mayTake}`))
        .returning(),
    )
    return row === undefined ? null : { ...row, settings: JSON.parse(row.settings) }
  }

  /**
   * Renews leases, and stores the memories of the watches unless they miss a stored event.
   * @param held by the ids of the watches.
   * @returns the ids of those whose leases are not lost.
   */
  renew(held: ReadonlyMap<string, HeldProgress>): Promise<ReadonlySet<string>> {
    return this.#store(
      held,
      sql`leased_until = ${this.#leaseEnd}, fed_until = coalesce(now() + make_interval(secs => held.fed), fed_until)`,
    )
  }

  async leave(id: string, progress: HeldProgress): Promise<void> {
    await this.#store(new Map([[id, progress]]), sql`lease = null, leased_until = null, fed_until = null`)
  }

  async #store(held: ReadonlyMap<string, HeldProgress>, lease: SQL): Promise<ReadonlySet<string>> {
    const column = (value: (progress: HeldProgress) => unknown) => sql.param([...held.values()].map(value))
    const seenAt = column(({ seenAt }) => (seenAt === null ? null : new Date(seenAt).toISOString()))
    const fed = column(({ fedMs }) => (fedMs === null ? null : fedMs / 1000))
    const rows = await this.#database.execute<{ id: string }>(sql`
      update watches set ${lease}, memory = case when watches.seq = held.seq then held.memory else watches.memory end,
        seen_at = coalesce(held.seen_at, watches.seen_at)
      from unnest(${sql.param([...held.keys()])}::text[], ${column(({ seq }) => seq)}::bigint[],
        ${column(({ memory }) => memory)}::text[], ${seenAt}::timestamptz[], ${fed}::float8[])
        as held (id, seq, memory, seen_at, fed)
      where watches.id = held.id and lease = ${this.#owner} returning watches.id`)
    return new Set(rows.map(({ id }) => id))
  }

  /** Frees the leases of servers that have stopped: those whose names begin with the prefix. */
  async forget(prefix: string): Promise<void> {
    await this.#database.execute(
      sql`update watches set lease = null, leased_until = null, fed_until = null where starts_with(lease, ${prefix})`,
    )
  }

  /**
   * Stores events, all or none, without the picture if that cannot be stored.
   * @returns the number of the last one; null when the lease is lost.
   */
  async tell(watch: HeldWatch, told: Told): Promise<number | null> {
    const { picture, frame, memory } = told
    const given =
      picture === null || typeof picture === 'string'
        ? picture
        : async () => ({ ...picture, bytes: picture.bytes.byteLength, draft: await this.#written(picture.bytes) })
    return this.#tell<FileError | null>(watch, given, async (transaction, fileId, fileError, seq) => {
      const last = await this.#log.append(transaction, { ...watch, seq }, told.events, { frame, fileId, fileError })
      await transaction
        .update(watches)
        .set({ seq: last, memory, ...(told.seenAt !== null && { seenAt: new Date(told.seenAt) }) })
        .where(eq(watches.id, watch.id))
      return last
    })
  }

  /**
   * Stores a clip, or why there is none, with the started events that it shows, and adds an event about it for each.
   * @param starts numbers of the started events.
   * @returns the number of the last event; null when the lease is lost.
   */
  async tellClip(watch: HeldWatch, starts: readonly number[], told: ToldClip | ClipError): Promise<number | null> {
    const given = typeof told === 'string' ? told : async () => ({ ...told, contentType: 'video/mp4' as const })
    return this.#tell<ClipError>(watch, given, async (transaction, file_id, reason, seq) => {
      const [from, to] = typeof told === 'string' || reason !== null ? [null, null] : [told.from, told.to]
      const clip: ClipReport = { status: reason === null ? 'available' : 'unavailable', file_id, reason, from, to }
      const started = await transaction
        .select({ seq: watchEvents.seq, body: watchEvents.body })
        .from(watchEvents)
        .where(and(isPending(watch.id), inArray(watchEvents.seq, [...starts])))
      const events = started.map(({ body }) => JSON.parse(body))
      for (const event of events) {
        const body = JSON.stringify({ ...event, data: { ...event.data, clip } })
        await transaction.update(watchEvents).set({ body, clip: file_id }).where(eq(watchEvents.id, event.id))
      }
      const drafts = events.map(({ data }) => clipEvent(data, clip))
      const last = await this.#log.append(transaction, { ...watch, seq }, drafts)
      await transaction.update(watches).set({ seq: last }).where(eq(watches.id, watch.id))
      return last
    })
  }

  /** The numbers of events whose clip is pending. */
  async pendingClips(id: string): Promise<readonly number[]> {
    const rows = await this.#database.use((queries) =>
      queries.select({ seq: watchEvents.seq }).from(watchEvents).where(isPending(id)),
    )
    return rows.map(({ seq }) => seq)
  }

  /**
   * Stores events together with their file, or without it if it cannot be stored.
   * @param given makes the file, or says why there is none; null if none is wanted.
   * @param add returns the number of the last event.
   */
  async #tell<Fault extends string | null>(
    { id, organisationId, settings }: HeldWatch,
    given: (() => Promise<Omit<NewFile, 'purpose' | 'filename'> & { readonly draft: Draft }>) | Fault,
    add: (
      transaction: Transaction,
      file: string | null,
      fault: Fault | 'storage' | null,
      seq: number,
    ) => Promise<number>,
  ): Promise<number | null> {
    let last: number | null = null
    let isBegun = false
    const addOnce = async (transaction: Transaction, file: string | null, fault: Fault | 'storage' | null) => {
      isBegun = true
      const [row] = await transaction
        .select({ seq: watches.seq })
        .from(watches)
        .where(and(eq(watches.id, id), eq(watches.lease, this.#owner)))
        .for('update')
      last = row === undefined ? null : await add(transaction, file, fault, row.seq)
      return last !== null
    }
    const addWithout = (fault: Fault | 'storage') =>
      this.#database.transaction((transaction) => addOnce(transaction, null, fault))
    if (typeof given !== 'function') {
      await addWithout(given)
      return last
    }
    try {
      const { draft, bytes, contentType } = await given()
      const file = { purpose: 'watch', filename: null, contentType, bytes } as const
      await this.#files.keepOutputs(organisationId, [{ draft, file }], expiryOf(settings), (transaction, [made]) =>
        addOnce(transaction, made!, null),
      )
    } catch (error) {
      // Once it has begun, the transaction may have been committed.
      if (isBegun) throw error
      await addWithout('storage')
    }
    return last
  }

  /** Starts a file. @throws ApiError 503 when there is no space. */
  draft(): Promise<Draft> {
    return this.#files.draft()
  }

  async #written(bytes: Uint8Array): Promise<Draft> {
    const draft = await this.#files.draft()
    try {
      await draft.write(bytes)
      return draft
    } catch (error) {
      await draft.discard()
      throw error
    }
  }

  /** Deletes expired events and the rows of deleted watches, except those with deliveries still to send. */
  async deleteExpired(): Promise<void> {
    await this.#database.execute(sql`
      delete from watch_events where (watch_id, seq) in (
        select watch_id, seq from watch_events events where expires_at < now()
          and not exists (select from watch_deliveries sent where (sent.watch_id, sent.seq) = (events.watch_id, events.seq))
        limit ${EXPIRED_AT_ONCE})`)
    await this.#database.execute(sql`
      delete from watches where deleted_at < now() - make_interval(secs => ${FAREWELL_SECONDS})
        and not exists (select from watch_deliveries sent where sent.watch_id = watches.id)`)
  }

  get #leaseEnd() {
    return sql<Date>`now() + make_interval(secs => ${this.#leaseSeconds})`
  }
}

function isPending(watch: string): SQL {
  return and(eq(watchEvents.watchId, watch), eq(watchEvents.clip, 'pending'))!
}
