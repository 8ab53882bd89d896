import { computed, signal } from '@preact/signals'
import { callJson } from '../server/call.ts'
import { type Failure, isAbort, toFailure } from '../server/failure.ts'
import type { Watch } from './wire.ts'

/** Newest first; null until the server has answered. */
export const watches = signal<readonly Watch[] | null>(null)
/** Whether the server has more than are listed. */
export const hasMore = signal(false)
/** Why something did not work, and how to try it again. */
export const watchesFailure = signal<{ readonly failure: Failure; readonly retry: () => void } | null>(null)
export const chosenId = signal<string | null>(null)
/** Whether the page shows the form of a new watch, in place of the chosen one. */
export const isMaking = signal(false)
/** Whether the chosen watch was made just now, by this page. */
export const isNew = signal(false)

/** What is shown where none is chosen: it stays when others make newer ones. */
const shownId = signal<string | null>(null)

/** The chosen watch, or else one of the newest. */
export const chosen = computed<Watch | null>(() => {
  const known = (id: string | null) => watches.value?.find((one) => one.id === id)
  return known(chosenId.value) ?? known(shownId.value) ?? watches.value?.[0] ?? null
})

const PAGE = 100
/** The list is limited to 60 calls a minute, which the organisation's programs share; one watch is not limited. */
const LIST_EVERY_MS = 6_000
const CHOSEN_EVERY_MS = 1_500

export function pathOf(id: string): string {
  return `/v1/watches/${encodeURIComponent(id)}`
}

/** Counts what this page has changed: answers to what was asked before are out of date. */
let changes = 0

function put(watch: Watch): void {
  watches.value = watches.value?.map((one) => (one.id === watch.id ? watch : one)) ?? null
}

/** Asks for the list again and again, and for the chosen watch more often, while the tab is visible. @returns what ends it. */
export function keepWatchesFresh(): () => void {
  const stop = new AbortController()
  const { signal } = stop
  void everyFew(LIST_EVERY_MS, () => listWatches(signal), signal)
  void everyFew(CHOSEN_EVERY_MS, () => refreshChosen(signal), signal)
  return () => stop.abort()
}

async function everyFew(milliseconds: number, ask: () => Promise<void>, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    if (!document.hidden) await ask()
    await new Promise<void>((resolve) => {
      const timer = setTimeout(done, milliseconds)
      document.addEventListener('visibilitychange', done)
      stop.addEventListener('abort', done)
      function done() {
        clearTimeout(timer)
        document.removeEventListener('visibilitychange', done)
        stop.removeEventListener('abort', done)
        resolve()
      }
    })
  }
}

async function listWatches(signal?: AbortSignal): Promise<void> {
  const before = changes
  try {
    const page = await callJson<{ data: readonly Watch[]; has_more: boolean }>(
      `/v1/watches?limit=${PAGE}`,
      signal ? { signal } : {},
    )
    if (before !== changes) return
    watches.value = page.data
    hasMore.value = page.has_more
    shownId.value = chosen.value?.id ?? null
    watchesFailure.value = null
  } catch (error) {
    if (isAbort(error)) return
    const failure = toFailure(error)
    // A list that is there stays, until the next answer: the page says by itself that the server is away.
    if (watches.value === null || failure.kind === 'key') {
      watchesFailure.value = { failure, retry: () => void listWatches() }
    }
  }
}

async function refreshChosen(signal: AbortSignal): Promise<void> {
  const id = chosen.value?.id
  if (id === undefined) return
  const before = changes
  try {
    const watch = await callJson<Watch>(pathOf(id), { signal })
    if (before === changes) put(watch)
  } catch (error) {
    if (!isAbort(error) && toFailure(error).status === 404) forget(id)
  }
}

/** @param noted whether the request drawer shows the request. @throws Failure */
export async function createWatch(body: object, noted: boolean, signal: AbortSignal): Promise<void> {
  const watch = await callJson<Watch>('/v1/watches', { method: 'POST', body, noted, signal })
  changes++
  watches.value = [watch, ...(watches.value ?? [])]
  chosenId.value = watch.id
  isMaking.value = false
  isNew.value = true
}

export function deleteWatch(watch: Watch): Promise<void> {
  return act(
    async () => {
      await callJson(pathOf(watch.id), { method: 'DELETE' }).catch((error: unknown) => {
        // Someone else has deleted it.
        if (toFailure(error).status !== 404) throw error
      })
      forget(watch.id)
    },
    () => void deleteWatch(watch),
  )
}

/** Changes settings of a watch. */
export function changeWatch(watch: Watch, settings: Partial<Pick<Watch, 'region' | 'questions'>>): Promise<void> {
  return act(
    async () => {
      const changed = await callJson<Watch>(pathOf(watch.id), { method: 'PATCH', body: settings })
      changes++
      put(changed)
    },
    () => void changeWatch(watch, settings),
  )
}

/** Has it look no longer, or again. */
export function pauseWatch(watch: Watch, paused: boolean): Promise<void> {
  return act(
    async () => {
      const path = `${pathOf(watch.id)}/${paused ? 'pause' : 'resume'}`
      const changed = await callJson<Watch>(path, { method: 'POST', noted: false })
      changes++
      put(changed)
    },
    () => void pauseWatch(watch, paused),
  )
}

/** A watch that is deleted. */
function forget(id: string): void {
  changes++
  watches.value = watches.value?.filter((one) => one.id !== id) ?? null
  if (chosenId.value === id) chosenId.value = null
}

async function act(action: () => Promise<void>, retry: () => void): Promise<void> {
  watchesFailure.value = null
  try {
    await action()
  } catch (error) {
    watchesFailure.value = { failure: toFailure(error), retry }
  }
}

/** How many frames were not looked at, for all reasons but that nothing had moved. */
export function droppedOf({ counts }: Watch): number {
  if (counts === null) return 0
  const { busy, late, rate } = counts.dropped
  return busy + late + rate
}

export function titleOf({ name, questions }: Watch): string {
  return name ?? questions[0]?.instructions ?? 'Watch'
}
