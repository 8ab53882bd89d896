import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { piecesOf, roundCeiling, type Sample, spanOf, withSample } from '../studio/src/widgets/history.ts'
import { bytesText, durationText, rateText } from '../studio/src/widgets/quantities.ts'

/** What the Studio's charts and figures of the server are computed from. */

const sample = (at: number, running: number | null = 0): Sample<number | null> => ({ at, state: running })
const running = (state: number | null): number | null => state

test.each([
  [0, '0 B'],
  [340, '340 B'],
  [1024, '1.0 KiB'],
  [155 * 2 ** 20, '155 MiB'],
  [9.94 * 2 ** 30, '9.9 GiB'],
  [9.96 * 2 ** 30, '10 GiB'],
  [3 * 2 ** 40, '3.0 TiB'],
])('%d bytes are %s', (bytes, text) => {
  expect(bytesText(bytes)).toBe(text)
})

test.each([
  [0, '0 s'],
  [59.2, '1 min 00 s'],
  [249, '4 min 09 s'],
  [3900, '1 h 05 min'],
  [86_400, '1 day 0 h'],
  [273_600, '3 days 4 h'],
])('%d seconds are %s', (seconds, text) => {
  expect(durationText(seconds)).toBe(text)
})

test('rates have tenths only where they say something', () => {
  expect([0, 7.84, 41.6, 412.6, 12_345].map(rateText)).toEqual(['0', '7.8', '41.6', '413', '12,345'])
})

describe('the samples', () => {
  test('are kept for five minutes, and the charts are as wide as they go back', () => {
    let samples: readonly Sample<number | null>[] = []
    for (let at = 0; at <= 600_000; at += 2000) {
      samples = withSample(samples, sample(at))
      expect(spanOf(samples)).toBe(Math.min(300_000, Math.max(60_000, at)))
    }
    expect(samples[0]!.at).toBe(300_000)
    expect(samples).toHaveLength(151)
  })

  test('are not joined over gaps', () => {
    const seen = [sample(0, 1), sample(2000, 2), sample(4000, null), sample(6000, 3), sample(60_000, 4)]
    expect(piecesOf(seen, running).map((points) => points.map(({ value }) => value))).toEqual([[1, 2], [3], [4]])
    fc.assert(
      fc.property(fc.array(fc.record({ gap: fc.nat(30_000), value: fc.option(fc.nat()) })), (steps) => {
        let at = 0
        const samples = steps.map(({ gap, value }) => {
          at += gap
          return sample(at, value)
        })
        const pieces = piecesOf(samples, running)
        // Nothing is lost, and the order stays.
        expect(pieces.flat().map(({ value }) => value)).toEqual(
          steps.flatMap(({ value }) => (value === null ? [] : [value])),
        )
        for (const points of pieces) {
          expect(points.length).toBeGreaterThan(0)
          for (const [index, { at }] of points.entries()) {
            if (index > 0) expect(at - points[index - 1]!.at).toBeLessThanOrEqual(10_000)
          }
        }
      }),
    )
  })
})

test('the upper edge of a chart is a round number that holds all values', () => {
  expect([[], [3], [6], [12], [20.5], [999]].map((values) => roundCeiling(values, 5))).toEqual([5, 5, 10, 20, 50, 1000])
  fc.assert(
    fc.property(fc.array(fc.double({ min: 0, max: 1e12, noNaN: true })), (values) => {
      const ceiling = roundCeiling(values, 1)
      const most = Math.max(1, ...values)
      expect(ceiling).toBeGreaterThanOrEqual(most * (1 - 1e-9))
      expect(ceiling).toBeLessThanOrEqual(most * 2.5 * (1 + 1e-9))
      expect(['1', '2', '5']).toContain(ceiling.toExponential(6)[0])
    }),
  )
})
