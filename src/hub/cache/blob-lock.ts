import { open, readFile, rm, stat, utimes } from 'node:fs/promises'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { isAlive } from '../../lib/is-alive.ts'
import type { Tuning } from '../tuning.ts'

export interface LockOptions {
  readonly tuning: Pick<Tuning, 'lockPollMs' | 'lockStaleMs'>
  readonly signal: AbortSignal
  /** Called once, when another process holds the lock. @param pid null if unknown. */
  readonly onWait: (pid: number | null) => void
}

/**
 * Waits until a lock is free, and holds it until the result is disposed of. A lock is a file that names the process
 * that works on another file, and which that process touches regularly. It is stale if its holder is a process of this
 * machine that has ended, or if it was not touched for long: process ids mean nothing across containers that share a
 * cache.
 */
export async function takeLock(path: string, { tuning, signal, onWait }: LockOptions): Promise<AsyncDisposable> {
  for (let isTold = false; ; ) {
    signal.throwIfAborted()
    if (await create(path, `${process.pid}@${hostname()}`)) break
    const holder = await readHolder(path)
    if (holder === null) continue
    if (isStale(holder, tuning.lockStaleMs)) {
      await takeAway(path, holder, tuning.lockStaleMs)
      continue
    }
    if (!isTold) onWait(holder.pid)
    isTold = true
    await sleep(tuning.lockPollMs, undefined, { signal })
  }
  const touch = () => {
    const now = new Date()
    utimes(path, now, now).catch(() => {})
  }
  const heartbeat = setInterval(touch, tuning.lockStaleMs / 4).unref()
  return {
    [Symbol.asyncDispose]() {
      clearInterval(heartbeat)
      return rm(path, { force: true })
    },
  }
}

interface Holder {
  readonly text: string
  readonly pid: number | null
  readonly host: string
  readonly touchedMs: number
}

async function readHolder(path: string): Promise<Holder | null> {
  try {
    const { mtimeMs } = await stat(path)
    const text = await readFile(path, 'utf8')
    const [, pid, host = ''] = /^(\d+)@(.*)$/.exec(text) ?? []
    return { text, pid: pid === undefined ? null : Number(pid), host, touchedMs: mtimeMs }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

function isStale({ pid, host, touchedMs }: Holder, staleMs: number): boolean {
  return Date.now() - touchedMs > staleMs || (pid !== null && host === hostname() && !isAlive(pid))
}

/**
 * Removes a stale lock. Only one of several processes that find it may do so: the others could remove the new lock of
 * the first one.
 */
async function takeAway(path: string, seen: Holder, staleMs: number): Promise<void> {
  const guard = `${path}.stale`
  if (!(await create(guard, ''))) {
    const held = await readHolder(guard)
    if (held !== null && Date.now() - held.touchedMs > staleMs) await rm(guard, { force: true })
    else await sleep(10)
    return
  }
  try {
    const now = await readHolder(path)
    if (now !== null && now.text === seen.text && now.touchedMs === seen.touchedMs) await rm(path, { force: true })
  } finally {
    await rm(guard, { force: true })
  }
}

/** @returns false if the file already exists. */
async function create(path: string, text: string): Promise<boolean> {
  try {
    await using file = await open(path, 'wx')
    await file.writeFile(text)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}
