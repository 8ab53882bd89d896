import fc from 'fast-check'
import { expect, test } from 'vitest'
import { RateWindow } from './rate-window.ts'

/** Seconds that a rate is computed over, at least and at most. */
const [LEAST, MOST] = [4.5, 5]

test('what comes steadily has its rate, and none a few seconds after its end', () => {
  const window = new RateWindow()
  for (let ms = 0; ms < 60_000; ms += 10) window.add(1, ms)
  expect(window.perSecond(60_000)).toBeCloseTo(100, 0)
  expect(window.perSecond(62_499)).toBeCloseTo(50, 0)
  expect(window.perSecond(66_000)).toBe(0)
  window.add(9, 1e9)
  expect(window.perSecond(1e9)).toBe(2)
})

test('any counts are those of the last seconds', () => {
  const counts = fc.array(fc.tuple(fc.nat(3_000), fc.nat(50)), { minLength: 1, maxLength: 50 })
  fc.assert(
    fc.property(counts, (counts) => {
      const window = new RateWindow()
      let now = 0
      const at = counts.map(([pause, count]) => {
        now += pause
        window.add(count, now)
        return { time: now, count }
      })
      const since = (seconds: number) =>
        at.filter(({ time }) => time > now - seconds * 1000).reduce((sum, { count }) => sum + count, 0)
      const rate = window.perSecond(now)
      expect(rate).toBeGreaterThanOrEqual(since(LEAST) / MOST)
      expect(rate).toBeLessThanOrEqual(since(MOST + 0.001) / LEAST)
    }),
  )
})
