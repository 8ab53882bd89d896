import { expect, test } from 'vitest'
import { DrainRate } from './drain-rate.ts'

test('tells how long so many requests will take, from how long the last ones took', () => {
  const rate = new DrainRate()
  expect(rate.secondsFor(3)).toBe(3)
  for (let i = 0; i < 100; i++) {
    rate.worked(200)
    rate.finished()
  }
  expect(rate.secondsFor(50)).toBe(10)
  expect(rate.secondsFor(1)).toBe(1)
})

test('notices when nothing ends', () => {
  const rate = new DrainRate()
  rate.worked(10)
  rate.finished()
  rate.worked(60_000)
  expect(rate.secondsFor(1)).toBe(60)
})
