import fc from 'fast-check'
import { expect, test } from 'vitest'
import { largestPicture } from './largest-picture.ts'

test.each([
  ['a square where one fits', 1, 256, 256],
  ['a square of exactly so many tokens', 256, 256, 256],
  ['a rectangle of exactly so many tokens', 200, 200, 200],
  ['a stripe where nothing else is allowed', 257, 257, 257],
  ['a few tokens fewer than a stripe', 1, 257, 256],
])('%s', (_, minTokens, maxTokens, tokens) => {
  const { width, height } = largestPicture({ pixelsPerToken: 14, minTokens, maxTokens }).image
  expect((width * height) / 14 ** 2).toBe(tokens)
})

test('is within the limits, whatever they are, and large where there is a choice', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 3000 }), fc.nat(2000), (minTokens, more) => {
      const maxTokens = minTokens + more
      const { width, height, data } = largestPicture({ pixelsPerToken: 2, minTokens, maxTokens }).image
      const tokens = (width / 2) * (height / 2)
      expect([width % 2, height % 2, data.length]).toEqual([0, 0, width * height * 3])
      expect(tokens).toBeGreaterThanOrEqual(minTokens)
      expect(tokens).toBeLessThanOrEqual(maxTokens)
      if (more > 50) expect(tokens).toBeGreaterThan(0.85 * maxTokens - 20)
    }),
  )
})
