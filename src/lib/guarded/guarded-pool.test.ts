import { afterEach, expect, test } from 'vitest'
import { GuardedPool } from './guarded-pool.ts'

/** A thread that answers with the question's name after `ms` milliseconds; null runs forever. */
const FILE = new URL(
  `data:text/javascript,${encodeURIComponent(`
    import { parentPort } from 'node:worker_threads'
    parentPort.on('message', ({ ms, name }) => {
      if (ms === null) for (;;);
      setTimeout(() => parentPort.postMessage(name), ms)
    })
    parentPort.postMessage('ready')
  `)}`,
)
type Question = { readonly ms: number | null; readonly name: string }

const pools: GuardedPool<Question, string>[] = []
afterEach(() => Promise.all(pools.splice(0).map((pool) => pool.stop())))
const LIMIT_MS = 2_000
function open(threads: number) {
  const pool = new GuardedPool<Question, string>(FILE, { threads, limitMs: LIMIT_MS })
  pools.push(pool)
  return pool
}

test('owners take turns, however many questions each has', async () => {
  const pool = open(1)
  const order: string[] = []
  const ask = async (owner: string, name: string) => order.push((await pool.ask(owner, { ms: 1, name }))!)
  await Promise.all([ask('a', 'a1'), ask('a', 'a2'), ask('a', 'a3'), ask('b', 'b1'), ask('c', 'c1'), ask('b', 'b2')])
  expect(order).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
})

test('a question that never ends is abandoned, and until then delays only its owner', async () => {
  const pool = open(2)
  // Both threads are started.
  await Promise.all(['a', 'b'].map((owner) => pool.ask(owner, { ms: 1, name: owner })))
  const endless = pool.ask('a', { ms: null, name: 'never' })
  const next = pool.ask('a', { ms: 1, name: 'next' })
  for (let i = 0; i < 5; i++) expect(await pool.ask('b', { ms: 1, name: `b${i}` })).toBe(`b${i}`)
  expect(pool.waiting('a')).toBe(1)
  expect(await Promise.all([endless, next])).toEqual([null, 'next'])
})

test('time in which a thread gets no processor does not count', async () => {
  const pool = open(1)
  expect(await pool.ask('a', { ms: 1.5 * LIMIT_MS, name: 'late' })).toBe('late')
})
