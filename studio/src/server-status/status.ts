import { signal } from '@preact/signals'
import { callJson } from '../server/call.ts'
import { key, models } from '../server/connection.ts'
import { type Failure, isAbort, toFailure } from '../server/failure.ts'
import { loadModels } from '../server/load-models.ts'
import type { EngineStatus, Scope, ServerStatus } from './status-body.ts'

/** The latest; null until the server has answered. */
export const status = signal<ServerStatus | null>(null)
export const statusFailure = signal<Failure | null>(null)

/** Whether the page's key may do something; null while that is not known. */
export function may(scope: Scope): boolean | null {
  return status.value?.scopes.includes(scope) ?? null
}

export function engineOf(id: string): EngineStatus | null {
  return status.value?.engines.find((engine) => engine.models.includes(id)) ?? null
}

/** `GET /v1/server` has no rate limit, and asks the engines at most once a second. */
const EVERY_MS = 2000

/**
 * Asks for the status every two seconds while the tab is visible.
 * @returns a function that stops it.
 */
export function watchStatus(): () => void {
  const stop = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  let isAsking = false
  const ask = async () => {
    clearTimeout(timer)
    if (stop.signal.aborted || isAsking || document.hidden) return
    isAsking = true
    await askStatus(stop.signal)
    isAsking = false
    if (!stop.signal.aborted) timer = setTimeout(() => void ask(), EVERY_MS)
  }
  document.addEventListener('visibilitychange', () => void ask(), { signal: stop.signal })
  void ask()
  return () => {
    clearTimeout(timer)
    stop.abort()
  }
}

/** Asks once, now. */
export async function askStatus(stop?: AbortSignal): Promise<void> {
  if (key.value === null) return
  try {
    const now = await callJson<ServerStatus>('/v1/server', stop ? { signal: stop } : {})
    status.value = now
    statusFailure.value = null
    noticeOtherModels(now)
  } catch (error) {
    if (!isAbort(error)) statusFailure.value = toFailure(error)
  }
}

let seen = ''

/** Models that somebody else has pulled or deleted: the list is asked for once for each change. */
function noticeOtherModels({ engines }: ServerStatus): void {
  const ids = engines.flatMap((engine) => engine.models).sort()
  const listed = models.value.map(({ id }) => id).sort()
  const now = ids.join('\n')
  if (now === seen || now === listed.join('\n')) return
  seen = now
  void loadModels()
}
