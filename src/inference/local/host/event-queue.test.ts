import { expect, test, vi } from 'vitest'
import { EventQueue } from './event-queue.ts'

test('delivers in order, what comes before and during iteration, up to the end', async () => {
  const queue = new EventQueue<number>(() => {})
  queue.push([1, 2])
  setTimeout(() => queue.push([3]), 5)
  setTimeout(() => queue.end(), 10)
  const seen: number[] = []
  for await (const value of queue) seen.push(value)
  expect(seen).toEqual([1, 2, 3])
})

test('rejects with the reason of a failure', async () => {
  const queue = new EventQueue<number>(() => {})
  queue.push([1])
  queue.fail(new Error('lost'))
  const iterator = queue[Symbol.asyncIterator]()
  await expect(iterator.next()).rejects.toThrow('lost')
})

test('tells when the consumer leaves early, and only then', async () => {
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
