import { SortedIds } from '../../files/file-id.ts'
import type { Transaction } from '../../storage/database.ts'
import { and, eq, isNull } from '../../storage/drizzle.ts'
import * as tables from '../../storage/schema.ts'
import type { WatchSettings } from '../watch-settings.ts'
import type { ClipReport, EventDraft, FileError, FrameAbout } from './watch-events.ts'

const { watchDeliveries, watchEvents, watchWebhooks } = tables

/** The watch that events belong to. */
interface Told {
  readonly id: string
  /** Number of its last event. */
  readonly seq: number
  readonly settings: Pick<WatchSettings, 'name' | 'keep_days'>
}

/** The frame that events show, and the file that keeps it; null if there is none. */
interface Shown {
  readonly frame: FrameAbout | null
  readonly fileId: string | null
  readonly fileError: FileError | null
}

const DAY_MS = 86_400_000

/** When events and files that are stored now expire. */
export function expiryOf({ keep_days: days }: Pick<WatchSettings, 'keep_days'>): Date {
  return new Date(Date.now() + days * DAY_MS)
}

/** Numbers and stores events, together with deliveries of those that the webhook wants. */
export class EventLog {
  readonly #ids = new SortedIds('evt_')

  /**
   * Stores events in a transaction that has locked the row of the watch.
   * @returns the number of the last one, which the caller stores in that row.
   */
  async append(
    transaction: Transaction,
    watch: Told,
    events: readonly EventDraft[],
    shown: Shown = { frame: null, fileId: null, fileError: null },
  ): Promise<number> {
    if (events.length === 0) return watch.seq
    const rows = events.map((event, i) => this.#rowOf(event, watch, watch.seq + 1 + i, shown))
    await transaction.insert(watchEvents).values(rows)
    const [webhook] = await transaction
      .select({ types: watchWebhooks.types })
      .from(watchWebhooks)
      .where(and(eq(watchWebhooks.watchId, watch.id), isNull(watchWebhooks.endedAt)))
    const sent = rows.filter((_, i) => webhook?.types.includes(events[i]!.type))
    if (sent.length > 0)
      await transaction.insert(watchDeliveries).values(sent.map(({ watchId, seq }) => ({ watchId, seq })))
    return watch.seq + rows.length
  }

  #rowOf(
    { type, data, hasFrame, clip }: EventDraft,
    { id: watchId, settings }: Told,
    seq: number,
    { frame, ...shown }: Shown,
  ): typeof watchEvents.$inferInsert {
    const { id, createdAt } = this.#ids.next()
    const { fileId, fileError } = type === 'watch.event.started' ? shown : { fileId: null, fileError: null }
    const about = hasFrame ? { frame: frame && { ...frame, file_id: fileId, file_error: fileError } } : {}
    const body = {
      ...{ id, object: 'event', type, created_at: Math.floor(createdAt.getTime() / 1000) },
      data: { watch: watchId, name: settings.name, seq, ...data, ...about, ...(clip !== undefined && { clip }) },
    }
    const kept = { fileId, clip: clip ? storedClip(clip) : null }
    return { watchId, seq, id, body: JSON.stringify(body), ...kept, expiresAt: expiryOf(settings) }
  }
}

/** The clip in the row of an event: its file, or `pending`; null if there will be none. */
function storedClip({ status, file_id: file }: ClipReport): string | null {
  return status === 'pending' ? status : file
}
