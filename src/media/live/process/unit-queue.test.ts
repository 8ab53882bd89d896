import { describe, expect, test } from 'vitest'
import type { AccessUnit } from './camera-session.ts'
import { UnitQueue } from './unit-queue.ts'

/** A stream of 10 units a second, with a key every ten. */
const unit = (number: number, changes: Partial<AccessUnit> = {}): AccessUnit => ({
  ...{ codec: 'h264', data: Uint8Array.of(number), isKey: number % 10 === 0 },
  ...{ mediaTime: number * 100, cameraTime: null, afterLoss: false, ...changes },
})
const taken = (queue: UnitQueue) => queue.take().map(({ unit: { data }, afterSkip }) => [data[0], afterSkip])

describe('units that wait', () => {
  test('begin with a key frame', () => {
    const queue = new UnitQueue()
    for (let i = 8; i < 13; i++) queue.add(unit(i), i * 100)
    expect(taken(queue)).toEqual([
      [10, true],
      [11, false],
      [12, false],
    ])
  })

  test('of a backlog are those from the newest key frame on', () => {
    const queue = new UnitQueue()
    queue.add(unit(0), 0)
    expect([taken(queue), queue.isLate]).toEqual([[[0, false]], false])
    // All at once, after five seconds.
    for (let i = 1; i < 43; i++) queue.add(unit(i), 5_000)
    expect(queue.isLate).toBe(false)
    for (let i = 43; i < 53; i++) queue.add(unit(i), 5_300)
    expect(taken(queue)).toEqual([
      [50, true],
      [51, false],
      [52, false],
    ])
  })

  test('come late while a backlog is read', () => {
    const queue = new UnitQueue()
    for (let i = 0; i < 10; i++) queue.add(unit(i), i * 100)
    queue.add(unit(11), 5_000)
    expect(queue.isLate).toBe(true)
    queue.add(unit(50), 5_010)
    expect(queue.isLate).toBe(false)
  })

  test('after a loss wait for a key frame', () => {
    const queue = new UnitQueue()
    queue.add(unit(0), 0)
    queue.add(unit(2, { afterLoss: true }), 200)
    queue.add(unit(3), 300)
    expect(taken(queue)).toEqual([[0, false]])
    queue.add(unit(10), 1_000)
    expect(taken(queue)).toEqual([[10, true]])
  })

  test('are key frames alone, if those are enough, and tell how far apart they are', () => {
    const queue = new UnitQueue()
    queue.isKeysOnly = true
    for (let i = 0; i < 35; i++) queue.add(unit(i), i * 100)
    expect([taken(queue), queue.keyDistanceMs]).toEqual([[[30, true]], 1_000])
    queue.isKeysOnly = false
    queue.add(unit(35), 3_500)
    expect(taken(queue)).toEqual([])
  })

  test('take bounded memory', () => {
    const queue = new UnitQueue()
    const data = new Uint8Array(2 ** 22)
    queue.add(unit(0, { data }), 0)
    for (let i = 1; i < 10; i++) queue.add(unit(i, { data }), i)
    expect(queue.take()).toEqual([])
  })
})
