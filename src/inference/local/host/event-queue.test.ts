import { expect, test, vi } from 'vitest'
import { EventQueue } from './event-queue.ts'

test('delivers values in order, whether pushed before or during iteration', async () => {
  const queue = new EventQueue<number>(() => {})
  queue.push([1, 2])
  setTimeout(() => queue.push([3]), 5)
  setTimeout(() => queue.end(), 10)
  const seen: number[] = []
  for await (const value of queue) seen.push(value)
  expect(seen).toEqual([1, 2, 3])
})

test('iteration rejects with the reason of a failure', async () => {
  const queue = new EventQueue<number>(() => {})
  queue.push([1])
  queue.fail(new Error('lost'))
  const iterator = queue[Symbol.asyncIterator]()
  await expect(iterator.next()).rejects.toThrow('lost')
})

test('reports a consumer that leaves before the end, and no other', async () => {
  const abandoned = vi.fn()
  const early = new EventQueue<number>(abandoned)
  early.push([1, 2])
  for await (const _ of early) break
  expect(abandoned).toHaveBeenCalledOnce()

  const whole = new EventQueue<number>(abandoned)
  whole.push([1])
  whole.end()
  for await (const _ of whole);
  expect(abandoned).toHaveBeenCalledOnce()
})
