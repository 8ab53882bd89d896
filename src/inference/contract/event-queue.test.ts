import { expect, test, vi } from 'vitest'
import { EventQueue } from './event-queue.ts'

const apart = () => null

test('delivers values in order, whether pushed before or during iteration', async () => {
  const queue = new EventQueue<number>(() => {}, apart)
  queue.push([1, 2])
  setTimeout(() => queue.push([3]), 5)
  setTimeout(() => queue.end(), 10)
  const seen: number[] = []
  for await (const value of queue) seen.push(value)
  expect(seen).toEqual([1, 2, 3])
})

test('iteration rejects with the reason of a failure', async () => {
  const queue = new EventQueue<number>(() => {}, apart)
  queue.push([1])
  queue.fail(new Error('lost'))
  const iterator = queue[Symbol.asyncIterator]()
  await expect(iterator.next()).rejects.toThrow('lost')
})

test('reports a consumer that leaves before the end, and no other', async () => {
  const abandoned = vi.fn()
  const early = new EventQueue<number>(abandoned, apart)
  early.push([1, 2])
  for await (const _ of early) break
  expect(abandoned).toHaveBeenCalledOnce()

  const whole = new EventQueue<number>(abandoned, apart)
  whole.push([1])
  whole.end()
  for await (const _ of whole);
  expect(abandoned).toHaveBeenCalledOnce()
})

test('joins values that wait for the consumer, where they can be', async () => {
  const joinOdd = (last: number, next: number) => (last % 2 === 1 && next % 2 === 1 ? last * 10 + next : null)
  const queue = new EventQueue<number>(() => {}, joinOdd)
  queue.push([1, 3])
  queue.push([5, 2, 4, 7])
  const iterator = queue[Symbol.asyncIterator]()
  expect((await iterator.next()).value).toBe(135)
  // What the consumer has is no longer in the queue.
  queue.push([9])
  queue.end()
  const rest: number[] = []
  for await (const value of { [Symbol.asyncIterator]: () => iterator }) rest.push(value)
  expect(rest).toEqual([2, 4, 79])
})
