import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type CodedFrame, Timeline } from './timeline.ts'

const frame = (time: number, fields: Partial<CodedFrame> = {}): CodedFrame => ({
  time,
  duration: 1,
  isKey: true,
  isHidden: false,
  ...fields,
})
const even = (count: number) => new Timeline(Array.from({ length: count }, (_, i) => frame(i)))

describe('samples', () => {
  it('have the requested rate', () => {
    expect(
      even(100)
        .sample(0.1, 64)
        .map(({ at }) => at),
    ).toEqual([0, 10, 20, 30, 40, 50, 60, 70, 80, 90])
  })

  it('are spread over a video that is too long for the rate', () => {
    expect(
      even(100)
        .sample(1, 4)
        .map(({ time }) => time),
    ).toEqual([0, 25, 50, 75])
  })

  it('are at least two, unless there is only one frame', () => {
    expect(even(3).sample(0.01, 64)).toHaveLength(2)
    expect(even(1).sample(100, 64)).toHaveLength(1)
  })

  it('show the frame displayed at their time', () => {
    const slow = new Timeline([frame(0, { duration: 1000 }), frame(1000), frame(1001, { duration: 999 })])
    expect(slow.sample(0.004, 64).map(({ at, time }) => [at, time])).toEqual([
      [0, 0],
      [250, 0],
      [500, 0],
      [750, 0],
      [1000, 1000],
      [1250, 1001],
      [1500, 1001],
      [1750, 1001],
    ])
  })

  it('start decoding at the keyframe before them', () => {
    const groups = new Timeline(Array.from({ length: 40 }, (_, i) => frame(i, { isKey: i % 10 === 0 })))
    expect(groups.sample(0.1, 64).map(({ start }) => start)).toEqual([0, 10, 20, 30])
    expect(groups.sample(1, 3).map(({ start }) => start)).toEqual([0, 10, 20])
  })

  it('never show hidden frames', () => {
    const cut = new Timeline([frame(-2, { isHidden: true }), frame(-1, { isHidden: true }), frame(0), frame(1)])
    expect(cut.sample(1, 64).map(({ time }) => time)).toEqual([0, 1])
  })

  it('are in order, within the video and no more than requested, for any frames', () => {
    const frames = fc.array(
      fc.record({
        time: fc.integer({ min: -1e6, max: 1e9 }),
        duration: fc.integer({ min: 0, max: 1e6 }),
        isKey: fc.boolean(),
        isHidden: fc.constant(false),
      }),
      { minLength: 1, maxLength: 50 },
    )
    fc.assert(
      fc.property(
        frames,
        fc.double({ min: 1e-6, max: 10, noNaN: true }),
        fc.integer({ min: 1, max: 256 }),
        (list, rate, most) => {
          const timeline = new Timeline(list)
          const samples = timeline.sample(rate, most)
          expect(samples.length).toBeGreaterThan(0)
          expect(samples.length).toBeLessThanOrEqual(most)
          for (const [i, { at, time, start }] of samples.entries()) {
            expect(at).toBeGreaterThanOrEqual(samples[i - 1]?.at ?? 0)
            expect(time).toBeGreaterThanOrEqual(samples[i - 1]?.time ?? time)
            expect(list.some((other) => other.time === time)).toBe(true)
            expect(start).toBeLessThan(list.length)
          }
        },
      ),
    )
  })
})
