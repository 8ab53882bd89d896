import { runInNewContext } from 'node:vm'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { releaseMemoryWhenIdle } from './memory.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  vi.restoreAllMocks()
  vi.useRealTimers()
})

/** MiB. */
const heap = () => process.memoryUsage().heapTotal / 2 ** 20
/** Milliseconds of processor time that the process says it has used. */
const used = vi.fn<() => number>()

test('importing it sets no flag of V8', () => {
  expect(runInNewContext('typeof gc')).toBe('undefined')
})

test('memory is given back once after work, when the process has been idle, and not before', () => {
  vi.spyOn(process, 'cpuUsage').mockImplementation(() => ({ user: used() * 1000, system: 0 }))
  used.mockReturnValue(0)
  releaseMemoryWhenIdle(500)
  const litter = () => {
    for (let i = 0; i < 200; i++) new Array(2 ** 17).fill(i)
    return heap()
  }

  const first = litter()
  used.mockReturnValue(500)
  vi.advanceTimersByTime(500)
  const busy = heap()
  vi.advanceTimersByTime(500)
  const idle = heap()
  // It may have grown a little.
  expect(busy).toBeGreaterThanOrEqual(first)
  expect(idle).toBeLessThan(busy)

  // Nothing was done since.
  const second = litter()
  vi.advanceTimersByTime(10_000)
  expect(heap()).toBeGreaterThanOrEqual(second)
  used.mockReturnValue(1000)
  vi.advanceTimersByTime(10_000)
  expect(heap()).toBeGreaterThanOrEqual(second)
  vi.advanceTimersByTime(10_000)
  expect(heap()).toBeLessThan(second)
})
