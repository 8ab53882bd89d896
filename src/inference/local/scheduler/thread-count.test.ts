import { describe, expect, test } from 'vitest'
import { BatchSplitter } from './batch/batch-splitter.ts'
import { LONG_STEPS, ThreadCount } from './thread-count.ts'

const CALIBRATED = [1, 2, 4, 8, 16, 32, 64].map((rows) => ({ rows, ms: 20 + rows }))
const splitter = new BatchSplitter(CALIBRATED, 64, 512)

/** A machine on which all threads together take `rows + 20` ms, and each barrier waits for a thread without a core. */
class Machine {
  now = 0
  tokens = 0
  readonly #cores: number
  readonly #threads: ThreadCount
  readonly #rows: number

  constructor(cores: number, rows = 1) {
    this.#cores = cores
    this.#rows = rows
    this.#threads = new ThreadCount(splitter, cores)
  }

  get threads(): number {
    return this.#threads.next(true, this.now)
  }

  /** @param busy cores that other programs keep busy. @returns tokens per second. */
  run(seconds: number, busy: number, lateFactor = 20): number {
    const [started, before] = [this.now, this.tokens]
    while (this.now < started + seconds * 1000) {
      const threads = this.threads
      const waits = threads + busy > this.#cores ? lateFactor : 1
      const ms = (splitter.roundMs(this.#rows) * this.#cores * waits) / threads
      this.now += ms
      this.tokens += this.#rows
      this.#threads.learn(this.#rows, ms, this.now)
    }
    return ((this.tokens - before) * 1000) / (this.now - started)
  }
}

describe('number of threads', () => {
  test('stays as it is on an idle machine', () => {
    const machine = new Machine(8)
    machine.run(5, 0)
    expect(machine.threads).toBe(8)
  })

  test('two threads on two cores: one beside a busy program, two again when it has ended', () => {
    const machine = new Machine(2)
    const idle = machine.run(5, 0)
    machine.run(2, 1)
    expect(machine.run(60, 1)).toBeGreaterThan(0.4 * idle)
    machine.run(20, 0)
    expect(machine.run(20, 0)).toBeGreaterThan(0.97 * idle)
    expect(machine.threads).toBe(2)
  })

  test('where threads sleep, all of them again soon after a busy program has ended', () => {
    const machine = new Machine(2)
    const idle = machine.run(5, 0)
    expect(machine.run(30, 1, 3)).toBeGreaterThan(0.45 * idle)
    machine.run(6, 0)
    expect(machine.threads).toBe(2)
  })

  test('goes down step by step, as far as is faster', () => {
    const machine = new Machine(8)
    const idle = machine.run(5, 0)
    machine.run(5, 3)
    expect(machine.run(60, 3)).toBeGreaterThan(0.45 * idle)
    const crowded = new Machine(8)
    crowded.run(10, 7)
    expect(crowded.run(60, 7)).toBeGreaterThan(0.06 * idle)
  })

  test('stays as it is where fewer threads are not faster: deep contexts take long for another reason', () => {
    const machine = new Machine(4, 16)
    const deep = (seconds: number) => machine.run(seconds, 4, 6)
    deep(5)
    const slow = deep(60)
    expect(slow).toBeGreaterThan((0.85 * 16 * 1000) / (6 * splitter.roundMs(16)))
  })

  test('observations are discarded while the engine is idle, and prompts take no part in trials', () => {
    const threads = new ThreadCount(splitter, 2)
    const step = (ms: number, now: number) => {
      threads.next(true, now)
      threads.learn(1, ms, now)
    }
    for (let now = 100; now <= 600; now += 100) step(100, now)
    expect([threads.next(true, 600), threads.next(false, 600)]).toEqual([1, 2])
    for (let now = 700; now <= 900; now += 100) step(40, now)
    expect([threads.next(true, 900), threads.next(false, 900)]).toEqual([1, 1])
    expect(threads.next(false, 4000)).toBe(2)
  })

  test('one thread is never fewer, and nothing is tried', () => {
    const machine = new Machine(1)
    machine.run(10, 1)
    expect(machine.threads).toBe(1)
  })

  test('the machine seems low on cores only with fewer threads than at first', () => {
    const lowWith = (first: number) => {
      const threads = new ThreadCount(splitter, first, 2)
      const used = new Set<number>()
      for (let now = 0; now < 6000; now += 20) {
        const isFaster = now < 2000 ? 2 : 1
        const count = threads.next(true, now)
        used.add(count)
        threads.learn(1, splitter.roundMs(1) * (count === isFaster ? 0.7 : 3), now)
      }
      expect(used).toEqual(new Set([1, 2]))
      return threads.isLow
    }
    expect([1, 2].map(lowWith)).toEqual([false, true])
  })

  test('more than at first are used where they are faster, also after a pause', () => {
    const run = (faster: number) => {
      const threads = new ThreadCount(splitter, 1, 2)
      for (let now = 0; now < 1000; now += 20) {
        const ms = splitter.roundMs(1) * (threads.next(true, now) === 2 ? faster : 1)
        threads.learn(1, ms, now)
      }
      return [threads.next(false, 1000), threads.next(false, 9000)]
    }
    expect([0.7, 0.95, 3].map(run)).toEqual([
      [2, 2],
      [1, 1],
      [1, 1],
    ])
  })

  test('a trial that one pause of the machine has spoiled is repeated once, at once', () => {
    /** @param pauses numbers of steps with two threads that take long. @returns the threads that the steps have used. */
    const run = (...pauses: readonly number[]) => {
      const threads = new ThreadCount(splitter, 1, 2)
      const used: number[] = []
      for (let now = 0; now < 300; now += 20) {
        const count = threads.next(true, now)
        used.push(count)
        const isPaused = count === 2 && pauses.includes(used.filter((of) => of === 2).length)
        threads.learn(1, splitter.roundMs(1) * (isPaused ? 40 : count === 2 ? 0.7 : 1), now)
      }
      return used
    }
    expect(run().slice(3)).toEqual([1, ...Array(11).fill(2)])
    expect(run(2).slice(3)).toEqual([1, ...Array(11).fill(2)])
    expect(run(2, 5).slice(3)).toEqual([1, ...Array(6).fill(2), ...Array(5).fill(1)])
  })

  describe('of long steps', () => {
    const run = (threads: ThreadCount, steps: number, start: number, slowness: (threads: number) => number) => {
      let now = start
      return Array.from({ length: steps }, () => {
        const count = threads.next(true, now)
        const ms = splitter.roundMs(64) * slowness(count)
        now += ms
        threads.learn(64, ms, now)
        return count
      })
    }
    const create = () => new ThreadCount(splitter, 2, 2, LONG_STEPS)

    test('stays as it is while they are fast', () => {
      expect(run(create(), 50, 0, () => 1)).toEqual(Array(50).fill(2))
    })

    test('is one after the first that takes long, and two are tried ever less often', () => {
      const chosen = run(create(), 1000, 0, (threads) => (threads === 1 ? 2 : 10))
      expect(chosen.slice(0, 2)).toEqual([2, 1])
      const trials = chosen.flatMap((threads, at) => (threads === 2 ? [at] : [])).slice(1)
      const pauses = trials.slice(1).map((at, index) => at - trials[index]!)
      expect(pauses.length).toBeGreaterThan(3)
      expect(pauses).toEqual(pauses.toSorted((a, b) => a - b))
      expect(pauses.at(-1)).toBeGreaterThan(50)
    })

    test('is two again when others have ended, or where one is no faster', () => {
      const threads = create()
      expect(run(threads, 5, 0, (count) => (count === 1 ? 2 : 10))).toContain(1)
      expect(run(threads, 20, 100_000, (count) => 2 / count)).toEqual(Array(20).fill(2))
      expect(run(threads, 40, 200_000, (count) => 20 / count).filter((count) => count === 1).length).toBeLessThan(4)
    })
  })
})
