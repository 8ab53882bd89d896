import { computed, signal } from '@preact/signals'
import { callEndless, callJson } from '../../server/call.ts'
import { Failure, isAbort, toFailure } from '../../server/failure.ts'
import { withPatience } from '../../server/patience.ts'
import { serverIsBack } from '../../server/server-watch.ts'
import { pathOf } from '../watches.ts'
import type { WatchEvent, WatchLook } from '../wire.ts'
import { rowsOf, withEvents } from './event-rows.ts'

/** The events of the watch that is followed, by their numbers. */
const events = signal<ReadonlyMap<number, WatchEvent>>(new Map())
/** The last number that is older than what was asked for. */
const earliest = signal(0)
export const hasEarlier = computed(() => earliest.value > 0)
/** Why no more events come; null while they do. */
export const feedFailure = signal<Failure | null>(null)
export const rows = computed(() => rowsOf(events.value.values()))

const AT_ONCE = 100
const PAUSE_MS = 1_000
/** After this time, looks that were elsewhere are asked for again. */
const ELSEWHERE_MS = 30_000

/**
 * Shows the events of a watch, and those to come while the tab is visible: browsers open only six connections to a server.
 * @param lastSeq the number of its last event.
 * @param onLook told of each look while the tab is visible.
 * @returns what ends it.
 */
export function followEvents(id: string, lastSeq: number, onLook: (look: WatchLook) => void): () => void {
  const stop = new AbortController()
  events.value = new Map()
  earliest.value = Math.max(0, lastSeq - AT_ONCE)
  feedFailure.value = null
  void follow(id, earliest.value, onLook, stop.signal).catch((error: unknown) => {
    if (!isAbort(error)) feedFailure.value = toFailure(error)
  })
  return () => stop.abort()
}

/** @throws Failure for what does not pass; DOMException `AbortError` */
async function follow(id: string, after: number, onLook: (look: WatchLook) => void, stop: AbortSignal): Promise<void> {
  let last: number | null = null
  for (;;) {
    await visible(stop)
    using connection = untilHidden(stop)
    const { signal } = connection
    const read = async (looks: boolean, signal: AbortSignal) => {
      const path = `${pathOf(id)}/stream?looks=${looks}${last === null ? `&after=${after}` : ''}`
      const headers: Record<string, string> = last === null ? {} : { 'last-event-id': String(last) }
      for await (const event of callEndless<WatchEvent | WatchLook>(path, { headers, signal })) {
        if (stop.aborted) return
        if (event.object === 'look') {
          onLook(event)
          continue
        }
        events.value = withEvents(events.value, [event])
        last = event.data.seq
      }
    }
    try {
      // Another server may have the looks; events come from each.
      const readEither = () =>
        read(true, signal).catch((error: unknown) => {
          if (error instanceof Failure && error.code === 'watch_elsewhere') return read(false, forWhile(signal))
          throw error
        })
      await withPatience(readEither, () => {}, signal)
    } catch (error) {
      stop.throwIfAborted()
      if (error instanceof Failure && error.kind === 'broken-off') await serverIsBack(stop)
      else if (!isAbort(error)) throw error
    }
    await pause(stop)
  }
}

/** Shows events that are older than those that are shown. @throws Failure */
export async function showEarlier(id: string): Promise<void> {
  const before = earliest.value
  const after = Math.max(0, before - AT_ONCE)
  const page = await callJson<{ data: readonly WatchEvent[] }>(
    `${pathOf(id)}/events?after=${after}&limit=${before - after}`,
  )
  // What has expired leaves a gap, so that the page may go on to events that are shown.
  events.value = withEvents(events.value, page.data)
  earliest.value = page.data.length === 0 ? 0 : after
}

function visible(stop: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    stop.throwIfAborted()
    if (!document.hidden) return resolve()
    const done = () => {
      if (!document.hidden) resolve()
    }
    document.addEventListener('visibilitychange', done, { signal: stop })
    stop.addEventListener('abort', () => reject(stop.reason), { once: true })
  })
}

/** Is aborted with the signal, or after a while. */
function forWhile(signal: AbortSignal): AbortSignal {
  const over = new AbortController()
  setTimeout(() => over.abort(), ELSEWHERE_MS)
  return AbortSignal.any([signal, over.signal])
}

function untilHidden(stop: AbortSignal): Disposable & { readonly signal: AbortSignal } {
  const hidden = new AbortController()
  const done = () => {
    if (document.hidden) hidden.abort()
  }
  document.addEventListener('visibilitychange', done)
  return {
    signal: AbortSignal.any([stop, hidden.signal]),
    [Symbol.dispose]: () => document.removeEventListener('visibilitychange', done),
  }
}

function pause(stop: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    stop.throwIfAborted()
    setTimeout(resolve, PAUSE_MS)
    stop.addEventListener('abort', () => reject(stop.reason), { once: true })
  })
}
