import { expect, test } from 'vitest'
import { FairQueue } from './fair-queue.ts'

/** Serves one item, as the scheduler does when it starts the last completion of a request. */
function serve(queue: FairQueue<{ organisation: string; id: number }>): number {
  const item = queue.head!
  queue.rotate()
  queue.remove(item)
  return item.id
}

test('serves organisations in turn, and the items of each in order of arrival', () => {
  const queue = new FairQueue<{ organisation: string; id: number }>()
  for (const [id, organisation] of ['a', 'a', 'a', 'b', 'b', 'c'].entries()) queue.add({ organisation, id })
  const served = [serve(queue), serve(queue)]
  queue.add({ organisation: 'd', id: 6 })
  while (!queue.isEmpty) served.push(serve(queue))
  expect(served).toEqual([0, 3, 5, 1, 4, 6, 2])
})

test('puts a returning item back in its place, once', () => {
  const queue = new FairQueue<{ organisation: string; id: number }>()
  const items = [3, 1, 2].map((id) => ({ organisation: 'a', id }))
  for (const item of [...items, ...items]) queue.add(item)
  expect([serve(queue), serve(queue), serve(queue)]).toEqual([1, 2, 3])
  expect(queue.head).toBeUndefined()
  queue.remove(items[0]!)
})
