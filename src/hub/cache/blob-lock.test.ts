import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type LockOptions, takeLock } from './blob-lock.ts'

let directory: string
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'lookout-lock-'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

const options = (changes: Partial<LockOptions> = {}): LockOptions => ({
  tuning: { lockPollMs: 2, lockStaleMs: 20_000 },
  signal: new AbortController().signal,
  onWait: () => {
    throw new Error('the lock is free')
  },
  ...changes,
})

test('one holder at a time, however many want it', async () => {
  const path = join(directory, 'busy.lock')
  let holders = 0
  let most = 0
  const waits: (number | null)[] = []
  const work = async () => {
    await using _ = await takeLock(path, options({ onWait: (pid) => void waits.push(pid) }))
    most = Math.max(most, ++holders)
    await new Promise(setImmediate)
    holders--
  }
  await Promise.all(Array.from({ length: 8 }, work))
  expect(most).toBe(1)
  expect(waits).not.toEqual([])
  // A holder that has just made the file has not written its number yet.
  for (const pid of waits) expect([process.pid, null]).toContain(pid)
  expect(existsSync(path)).toBe(false)
})

test('a lock of a process that has ended, or that was not touched for long, is taken over by one', async () => {
  const { pid } = spawnSync(process.execPath, ['-e', ''])
  const path = join(directory, 'stale.lock')
  const long = new Date(Date.now() - 60_000)
  for (const [holder, touched] of [
    [`${pid}@${hostname()}`, new Date()],
    [`${process.pid}@another-machine`, long],
    ['', long],
  ] as const) {
    await writeFile(path, holder)
    await utimes(path, touched, touched)
    let holders = 0
    const waits: (number | null)[] = []
    const work = async () => {
      await using _ = await takeLock(path, options({ onWait: (holding) => void waits.push(holding) }))
      expect(++holders).toBe(1)
      await new Promise(setImmediate)
      holders--
    }
    await Promise.all(Array.from({ length: 5 }, work))
    expect(waits).not.toContain(pid)
    expect(existsSync(path)).toBe(false)
  }
})

test('a process elsewhere that touches its lock is waited for', async () => {
  const path = join(directory, 'alive.lock')
  await writeFile(path, '1@another-machine')
  const stop = new AbortController()
  const waiting = takeLock(path, options({ signal: stop.signal, onWait: () => stop.abort() }))
  await expect(waiting).rejects.toThrow('aborted')
  expect(existsSync(path)).toBe(true)
})
