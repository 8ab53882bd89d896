import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ByteBudget, type ByteLease } from './byte-budget.ts'

const never = new AbortController().signal

test('a body that fits is admitted at once; one that does not fit waits for room', async () => {
  const budget = new ByteBudget(100)
  const first = await budget.acquire(60, 'a', never)
  const waiting = budget.acquire(60, 'a', never)
  first.giveBack(10)
  expect(budget.taken).toBe(50)
  first.giveBack(10)
  await waiting
  expect(budget.taken).toBe(100)
})

test.each([
  ['room', 100],
  ['the share of its organisation', 200 * 2 ** 20],
])('a small body does not overtake one that waits for %s', async (_what, limit) => {
  const budget = new ByteBudget(limit)
  const first = await budget.acquire(limit * 0.45, 'a', never)
  const order: string[] = []
  const take = async (bytes: number, name: string) => {
    const lease = await budget.acquire(bytes, 'a', never)
    order.push(name)
    lease.release()
  }
  const [large, small] = [take(limit * 0.6, 'large'), take(1, 'small')]
  first.release()
  await Promise.all([large, small])
  expect(order).toEqual(['large', 'small'])
})

test('organisations take turns', async () => {
  const budget = new ByteBudget(100)
  const order: string[] = []
  const held = await budget.acquire(100, 'a', never)
  const take = async (organisation: string) => {
    const lease = await budget.acquire(100, organisation, never)
    order.push(organisation)
    lease.release()
  }
  const all = ['a', 'a', 'a', 'b', 'b'].map(take)
  held.release()
  await Promise.all(all)
  expect(order).toEqual(['a', 'b', 'a', 'b', 'a'])
})

test('a body larger than the budget gets all of it', async () => {
  const budget = new ByteBudget(100)
  const lease = await budget.acquire(1000, 'a', never)
  expect(budget.taken).toBe(100)
  lease.giveBack(1000)
  expect(budget.taken).toBe(0)
})

test('an aborted request leaves the queue and lets later requests pass', async () => {
  const budget = new ByteBudget(100)
  await budget.acquire(50, 'a', never)
  const leaving = new AbortController()
  const aborted = budget.acquire(80, 'a', leaving.signal)
  const next = budget.acquire(50, 'a', never)
  leaving.abort(new Error('left'))
  await expect(aborted).rejects.toThrow('left')
  await next
})

test('a request that waits too long is told when to retry', async () => {
  const budget = new ByteBudget(100, { waitMs: 5 })
  const lease = await budget.acquire(100, 'a', never)
  await expect(budget.acquire(1, 'a', never)).rejects.toMatchObject({
    status: 503,
    code: 'model_overloaded',
    retryAfter: 5,
    message: expect.stringContaining('Try again in 5 seconds'),
  })
  lease.release()
  expect((await budget.acquire(100, 'a', never)) !== null).toBe(true)
})

test('no sequence of acquires, releases and aborts exceeds the budget or loses part of it', async () => {
  const step = fc.oneof(
    fc.record({ type: fc.constant('take' as const), bytes: fc.integer({ min: 1, max: 150 }), owner: fc.nat(2) }),
    fc.record({ type: fc.constant('return' as const), which: fc.nat(20), bytes: fc.integer({ min: 0, max: 150 }) }),
    fc.record({ type: fc.constant('abort' as const), which: fc.nat(20) }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const budget = new ByteBudget(100)
      const leases: ByteLease[] = []
      const waiting: AbortController[] = []
      const acquired: Promise<unknown>[] = []
      for (const step of steps) {
        if (step.type === 'take') {
          const controller = new AbortController()
          waiting.push(controller)
          acquired.push(
            budget.acquire(step.bytes, `${step.owner}`, controller.signal).then(
              (lease) => leases.push(lease),
              () => {},
            ),
          )
        } else if (step.type === 'return') leases[step.which]?.giveBack(step.bytes)
        else waiting[step.which]?.abort(new Error('left'))
        await new Promise(setImmediate)
        expect(budget.taken).toBeLessThanOrEqual(100)
      }
      for (const controller of waiting) controller.abort(new Error('left'))
      await Promise.all(acquired)
      for (const lease of leases) lease.release()
      expect(budget.taken).toBe(0)
    }),
  )
})
