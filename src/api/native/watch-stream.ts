import type { FastifyRequest } from 'fastify'
import { withTimeout } from '../../lib/with-timeout.ts'
import { type WatchRunner, watchElsewhere } from '../../watches/watch-runner.ts'
import type { Watch, Watches } from '../../watches/watches.ts'
import { principalOf } from '../http/access/auth.ts'
import type { ApiCall } from '../http/api-call.ts'
import { EVENTS, type Framing } from '../http/connection/response-stream.ts'
import { queryBoolean, queryNumber } from '../http/query.ts'
import { keyOf } from './found-watch.ts'

export interface WatchStreamOptions {
  readonly watches: Watches
  readonly watchRunner: WatchRunner
  /** Fires when new requests are no longer accepted. Clients reconnect, perhaps to another server. */
  readonly draining: AbortSignal
  readonly keepAliveMs?: number | undefined
}

/** Events have ids, with which clients that reconnect say which ones they have. */
const NUMBERED: Framing = {
  ...EVENTS,
  frame: (data, seq) => (seq === undefined ? `data: ${data}\n\n` : `id: ${seq}\ndata: ${data}\n\n`),
}
const EVENTS_AT_ONCE = 100
/** Maximum delay, in ms, before events of other servers, or the key's revocation, are noticed. */
const POLL_MS = 5_000
const LAST_EVENT = 'last-event-id'

/** The destination of events. */
interface EventSink {
  /** Null if the client can receive more; else a promise that resolves when it can, or has disconnected. */
  readonly full: Promise<void> | null
  /** @param seq the event's number, if it has one. */
  send(data: string, seq?: string): void
}

/** The events that a client requests. */
interface Followed {
  /** Number of the last event that it has received. */
  readonly after: number
  readonly looks: boolean
}

/** @throws ApiError 400 */
export function followedBy({ query, headers }: FastifyRequest, { seq }: Watch): Followed {
  const numbers = { min: 0, max: Number.MAX_SAFE_INTEGER }
  const after = queryNumber(query, 'after', numbers)
  return { looks: queryBoolean(query, 'looks'), after: queryNumber(headers, LAST_EVENT, numbers) ?? after ?? seq }
}

/**
 * Sends the events of a watch to an event stream until the client disconnects or, if it asks for looks, another server
 * takes over the watch.
 * @throws ApiError 503 if another server already makes the looks.
 */
export async function streamEvents(
  watch: Watch,
  request: FastifyRequest,
  call: ApiCall,
  options: WatchStreamOptions,
): Promise<undefined> {
  const followed = followedBy(request, watch)
  if (followed.looks && hasLooksElsewhere(watch, options))
    throw watchElsewhere('Another server runs this watch, and only that one streams its looks')
  const stream = call.openStream(NUMBERED, options.keepAliveMs)
  try {
    await sendEvents(stream, request, { ...followed, closed: call.closed, endsElsewhere: followed.looks }, options)
  } finally {
    stream.end()
  }
  return undefined
}

/**
 * Sends the events of the watch in order, as they are stored, until the client disconnects, the watch is deleted, the
 * client's key is revoked or expires, or the server stops accepting requests.
 * @param endsElsewhere whether the stream ends when another server makes the looks.
 * @returns whether the key ended it.
 */
export async function sendEvents(
  sink: EventSink,
  request: FastifyRequest,
  { after, looks, closed, endsElsewhere }: Followed & Pick<ApiCall, 'closed'> & { readonly endsElsewhere: boolean },
  { watches, watchRunner, draining }: WatchStreamOptions,
): Promise<boolean> {
  const [organisation, id] = keyOf(request)
  const { key } = principalOf(request)
  const over = AbortSignal.any([closed, draining])
  let last = after
  let woken = Promise.withResolvers<void>()
  const unfollow = watchRunner.follow(id, {
    onTold: () => woken.resolve(),
    // Dropped while the client does not read.
    onLook: (look) => {
      if (looks && sink.full === null) sink.send(JSON.stringify({ object: 'look', watch: id, ...look }))
    },
  })
  over.addEventListener('abort', () => woken.resolve())
  try {
    while (!over.aborted) {
      woken = Promise.withResolvers()
      if (await inTurn(() => watchRunner.isShutOut(key, organisation))) return true
      const sent = await sendAfter(last)
      if (sent === null) break
      if (sent === last) await withTimeout(POLL_MS, woken.promise, undefined)
      last = sent
    }
  } catch (error) {
    // The stream ended while it waited for its turn.
    if (!over.aborted) throw error
  } finally {
    unfollow()
  }
  return false

  async function inTurn<Result>(read: () => Promise<Result>): Promise<Result> {
    using _turn = await watchRunner.reads.take(organisation, over)
    return await read()
  }

  /** @returns the number of the last sent event; null if all are sent and the watch is deleted or runs elsewhere. */
  async function sendAfter(after: number): Promise<number | null> {
    // Checked first: the last events of a watch are stored while it is deleted.
    const isLast = await isOver()
    // The database may be unavailable for a while: the stream waits for it.
    const rows = await inTurn(() => watches.events(id, { after, limit: EVENTS_AT_ONCE }).catch(() => []))
    for (const { seq, body } of rows) {
      sink.send(body, String(seq))
      await sink.full
    }
    return rows.at(-1)?.seq ?? (isLast ? null : after)
  }

  async function isOver(): Promise<boolean> {
    const found = await inTurn(() => watches.find(organisation, id).catch(() => undefined))
    return found ? endsElsewhere && hasLooksElsewhere(found, { watchRunner }) : found === null
  }
}

/** Whether another server makes the looks. A server takes over a watch without frames when frames arrive there. */
function hasLooksElsewhere(watch: Watch, { watchRunner }: Pick<WatchStreamOptions, 'watchRunner'>): boolean {
  return watchRunner.isElsewhere(watch) && (watch.settings.source.type !== 'push' || watch.isFed)
}
