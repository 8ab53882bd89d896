import { expect, test } from 'vitest'
import { atLeast } from './sight.ts'

test('how likely a guesser is right so often', () => {
  expect(atLeast(0, 12, 0.25)).toBe(1)
  expect(atLeast(1, 1, 0.25)).toBe(0.25)
  expect(atLeast(12, 12, 0.25)).toBeCloseTo(0.25 ** 12, 12)
  // 1 - 0.75^4 - 4 * 0.25 * 0.75^3
  expect(atLeast(2, 4, 0.25)).toBeCloseTo(0.26171875, 10)
  expect(atLeast(7, 12, 0.25)).toBeCloseTo(0.01425, 4)
})
