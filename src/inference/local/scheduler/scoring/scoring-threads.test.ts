import { expect, test } from 'vitest'
import { ScoringThreads } from './scoring-threads.ts'

const ROWS = 240
const EXPECTED = ROWS + 16

/** Calls one after the other. @param slowness of a call, by its threads, in multiples of the expected time. */
function threadsOf(
  threads: ScoringThreads,
  calls: number,
  start: number,
  slowness: (threads: number) => number,
): number[] {
  let now = start
  return Array.from({ length: calls }, () => {
    const number = threads.next(now)
    const ms = EXPECTED * slowness(number)
    now += ms
    threads.learn(ROWS, ms, now)
    return number
  })
}

test('all threads compute while that is fast', () => {
  expect(threadsOf(new ScoringThreads(4, 1), 50, 0, () => 1)).toEqual(Array(50).fill(4))
})

test('one computes beside busy programs, and all are tried ever less often', () => {
  const chosen = threadsOf(new ScoringThreads(4, 1), 400, 0, (threads) => (threads === 1 ? 2 : 10))
  const trials = chosen.flatMap((threads, at) => (threads === 4 ? [at] : []))
  expect(trials[0]).toBe(0)
  expect(trials.length).toBeGreaterThan(3)
  const pauses = trials.slice(1).map((at, index) => at - trials[index]!)
  expect(pauses).toEqual(pauses.toSorted((a, b) => a - b))
})

test('all compute again when the others have ended, or where one is no faster', () => {
  const threads = new ScoringThreads(4, 1)
  threadsOf(threads, 5, 0, () => 10)
  expect(threadsOf(threads, 20, 100_000, (number) => 1 / number)).toEqual(Array(20).fill(4))
  expect(threadsOf(threads, 5, 200_000, () => 10)[0]).toBe(4)
})
