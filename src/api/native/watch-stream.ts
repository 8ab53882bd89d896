import type { FastifyRequest } from 'fastify'
import { withTimeout } from '../../lib/with-timeout.ts'
import type { WatchRunner } from '../../watches/watch-runner.ts'
import type { Watch, Watches } from '../../watches/watches.ts'
import type { ApiCall } from '../http/api-call.ts'
import { EVENTS, type Framing, type ResponseStream } from '../http/connection/response-stream.ts'
import { queryBoolean, queryNumber } from '../http/query.ts'

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
/** How long it takes to notice what other servers have told. */
const POLL_MS = 5_000
const LAST_EVENT = 'last-event-id'

/** Sends the events of a watch as they are stored, in the order of their numbers, until the client leaves. */
export async function streamEvents(
  { id, seq }: Watch,
  request: FastifyRequest,
  call: ApiCall,
  { watches, watchRunner, draining, keepAliveMs }: WatchStreamOptions,
): Promise<undefined> {
  const numbers = { min: 0, max: Number.MAX_SAFE_INTEGER }
  const looks = queryBoolean(request.query, 'looks')
  const after = queryNumber(request.query, 'after', numbers)
  let last = queryNumber(request.headers, LAST_EVENT, numbers) ?? after ?? seq
  const over = AbortSignal.any([call.closed, draining])
  const stream = call.openStream(NUMBERED, keepAliveMs)
  let woken = Promise.withResolvers<void>()
  const unfollow = watchRunner.follow(id, {
    onTold: () => woken.resolve(),
    // Dropped while the client does not read.
    onLook: (look) => {
      if (looks && stream.full === null) stream.send(JSON.stringify({ object: 'look', watch: id, ...look }))
    },
  })
  over.addEventListener('abort', () => woken.resolve())
  try {
    while (!over.aborted) {
      woken = Promise.withResolvers()
      const sent = await sendAfter(last)
      if (sent === null) break
      if (sent === last) await withTimeout(POLL_MS, woken.promise, undefined)
      last = sent
    }
  } finally {
    unfollow()
    stream.end()
  }
  return undefined

  /** @returns the number of the last event; null when the watch is deleted and all its events are sent. */
  async function sendAfter(after: number): Promise<number | null> {
    // The database may be away for a while: the stream waits for it.
    const rows = await watches.events(id, { after, limit: EVENTS_AT_ONCE }).catch(() => [])
    for (const { seq, body } of rows) await sendWhole(stream, body, String(seq))
    return rows.at(-1)?.seq ?? ((await isKnown()) ? after : null)
  }

  async function isKnown(): Promise<boolean> {
    const found = await watches.find(call.principal.organisation, id).catch(() => undefined)
    return found !== null
  }
}

async function sendWhole(stream: ResponseStream, data: string, name: string): Promise<void> {
  stream.send(data, name)
  await stream.full
}
