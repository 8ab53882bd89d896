import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ImagePart } from '../../contract/parts.ts'
import { measureEncoder } from './encoder-times.ts'

const UNIT = 4
const tokensOf = ({ image }: ImagePart) => (image.width * image.height) / UNIT ** 2

/** @param cost ms of a picture by its tokens. */
function measure(minTokens: number, maxTokens: number, cost: (tokens: number) => number) {
  const pictures: ImagePart[] = []
  const times = measureEncoder({ pixelsPerToken: UNIT, minTokens, maxTokens }, (picture) => {
    pictures.push(picture)
    return cost(tokensOf(picture))
  })
  return { pictures, sizes: pictures.map(tokensOf), ...times }
}

test('any rule gets pictures that it allows', () => {
  const tokens = fc.integer({ min: 1, max: 3000 })
  fc.assert(
    fc.property(tokens, tokens, (a, b) => {
      const [min, max] = [Math.min(a, b), Math.max(a, b)]
      const { pictures, sizes, picture } = measure(min, max, () => 1)
      expect(pictures[0]).toBe(picture)
      for (const { image } of pictures) {
        expect([image.width % UNIT, image.height % UNIT]).toEqual([0, 0])
        expect(image.data.length).toBe(image.width * image.height * 3)
      }
      for (const size of sizes) {
        expect(size).toBeGreaterThanOrEqual(min)
        expect(size).toBeLessThanOrEqual(max)
      }
    }),
    { numRuns: 50 },
  )
})

test('of pictures that are cut, the fewest tiles are measured', () => {
  const tiles = { grid: 'longest', side: 512, tokens: 64, along: 4 } as const
  const pictures: ImagePart[] = []
  const times = measureEncoder({ pixelsPerToken: 64, minTokens: 320, maxTokens: 1088, tiles }, (picture) => {
    pictures.push(picture)
    return 70
  })
  expect(pictures.map(({ image }) => [image.width, image.height])).toEqual([[2048, 512]])
  expect(times).toEqual({ picture: pictures[0], longestMs: 70 })
})

test('one size that is not a square is measured', () => {
  expect(measure(280, 280, () => 70)).toMatchObject({ sizes: [280], longestMs: 70 })
})

test('a quick encoder is measured up to its largest picture', () => {
  expect(measure(8, 4096, (tokens) => tokens / 10)).toMatchObject({ sizes: [256, 484, 1024, 2025, 4096] })
  expect(measure(160, 200, () => 9)).toMatchObject({ sizes: [196], longestMs: 9 * (200 / 196) ** 2 })
})

test('a slow encoder need not encode its largest picture, and its expected time is no underestimate', () => {
  for (const cost of [(tokens: number) => tokens * 4, (tokens: number) => tokens ** 2 / 100]) {
    const { sizes, longestMs } = measure(8, 4096, cost)
    expect(cost(sizes.at(-1)!)).toBeLessThan(4_000)
    expect(longestMs).toBeGreaterThanOrEqual(cost(4096))
  }
})
