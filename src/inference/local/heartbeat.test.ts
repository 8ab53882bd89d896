import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { HEARTBEAT_MS, HeartbeatMonitor, silenceLimit } from './heartbeat.ts'

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

test('reports silence once it lasts too long, and only once', () => {
  const silent = vi.fn()
  const monitor = new HeartbeatMonitor(10 * HEARTBEAT_MS, silent)
  for (let i = 0; i < 5; i++) {
    vi.advanceTimersByTime(9 * HEARTBEAT_MS)
    monitor.beat()
  }
  expect(silent).not.toHaveBeenCalled()
  vi.advanceTimersByTime(100 * HEARTBEAT_MS)
  expect(silent).toHaveBeenCalledOnce()
})

test('reports nothing after it is stopped', () => {
  const silent = vi.fn()
  new HeartbeatMonitor(HEARTBEAT_MS, silent).stop()
  vi.advanceTimersByTime(100 * HEARTBEAT_MS)
  expect(silent).not.toHaveBeenCalled()
})

test('allows for long steps on slow machines', () => {
  expect(silenceLimit(50, 0)).toBe(10_000)
  expect(silenceLimit(200, 0)).toBe(20_000)
  expect(silenceLimit(1000, 0)).toBe(30_000)
  expect(silenceLimit(25_000, 0)).toBeGreaterThan(10 * 25_000)
})

test('allows for slow encoders', () => {
  expect(silenceLimit(50, 90)).toBe(10_000)
  expect(silenceLimit(50, 300)).toBe(30_000)
  expect(silenceLimit(50, 60_000)).toBe(480_000)
})
