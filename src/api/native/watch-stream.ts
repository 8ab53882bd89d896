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
  /** Fires when new requests are no longer accepted. Clients connect again, perhaps elsewhere. */
  readonly draining: AbortSignal
  readonly keepAliveMs?: number | undefined
}

/** Events with numbers, by which clients that connect again say what they have. */
const NUMBERED: Framing = {
  ...EVENTS,
  frame: (data, seq) => (seq === undefined ? `data: ${data}\n\n` : `id: ${seq}\ndata: ${data}\n\n`),
}
const EVENTS_AT_ONCE = 100
/** How long it takes to notice what other servers have told, and that the key is revoked. */
const POLL_MS = 5_000
const LAST_EVENT = 'last-event-id'

/** What events are sent to. */
interface EventSink {
  /** Null while the client can take more; else a promise that resolves when it can, or has disconnected. */
  readonly full: Promise<void> | null
  /** @param seq of an event that has a number. */
  send(data: string, seq?: string): void
}

/** Which events a client asks for. */
interface Followed {
  /** The number of the last event that it has. */
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
 * Sends the events of a watch to an event stream, until the client leaves, or looks are made on another server that it asks for.
 * @throws ApiError 503 where they are made there already.
 */
export async function streamEvents(
  watch: Watch,
  request: FastifyRequest,
  call: ApiCall,
  options: WatchStreamOptions,
): Promise<undefined> {
  const followed = followedBy(request, watch)
  if (followed.looks && hasLooksElsewhere(watch, options))
    throw watchElsewhere('Another server runs this watch, and has its looks')
  const stream = call.openStream(NUMBERED, options.keepAliveMs)
  try {
    await sendEvents(stream, request, { ...followed, closed: call.closed, endsElsewhere: followed.looks }, options)
  } finally {
    stream.end()
  }
  return undefined
}

/**
 * Sends the events of the watch as they are stored, in the order of their numbers, until the client leaves, the watch is
 * deleted, the client's key is revoked or expires, or no new requests are accepted.
 * @param endsElsewhere whether it ends when another server has the looks.
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

  /** @returns the number of the last event; null when all are sent, and the watch is deleted or elsewhere. */
  async function sendAfter(after: number): Promise<number | null> {
    // Asked first: the last events of a watch are stored as it is deleted.
    const isLast = await isOver()
    // The database may be away for a while: the stream waits for it.
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

/** Whether another server looks. A watch without frames is taken over when they come here. */
function hasLooksElsewhere(watch: Watch, { watchRunner }: Pick<WatchStreamOptions, 'watchRunner'>): boolean {
  return watchRunner.isElsewhere(watch) && (watch.settings.source.type !== 'push' || watch.isFed)
}
