import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import type { ImageLimits } from '../models/card.ts'
import { closeTarget, targetFor } from './image-detail.ts'
import { isPrepared, targetSize } from './resize.ts'
import { fewestTiles } from './tiles.ts'

type Tiled = ImageLimits & { readonly tiles: NonNullable<ImageLimits['tiles']> }

const nearest: Tiled = {
  ...{ pixelsPerToken: 28, minTokens: 256, maxTokens: 13 * 256 },
  tiles: { grid: 'nearest', side: 448, tokens: 256, most: 12 },
}
const large: Tiled = {
  ...{ pixelsPerToken: 32, minTokens: 64, maxTokens: 11 * 256 },
  tiles: { grid: 'large', side: 512, tokens: 256, most: 10 },
}
const grids: [number, number][] = [[1, 2], [2, 1], [2, 2], [3, 1], [1, 3]] // biome-ignore format: one list
const listed: Tiled = {
  ...{ pixelsPerToken: 14, minTokens: 576, maxTokens: 5 * 576 },
  tiles: { grid: 'listed', side: 336, tokens: 576, grids },
}
const longest: Tiled = {
  ...{ pixelsPerToken: 64, minTokens: 5 * 64, maxTokens: 17 * 64 },
  tiles: { grid: 'longest', side: 512, tokens: 64, along: 4 },
}
const slices: Tiled = {
  ...{ pixelsPerToken: 56, minTokens: 64, maxTokens: 10 * 64 },
  tiles: { grid: 'slices', side: 448, tokens: 64, most: 9, unit: 14 },
}
const always: Tiled = {
  ...{ pixelsPerToken: 32, minTokens: 3 * 144, maxTokens: 5 * 144 },
  tiles: { grid: 'listed', side: 384, tokens: 144, grids, always: true },
}
const whole: Tiled = {
  ...{ pixelsPerToken: 64, minTokens: 273, maxTokens: 9 * 110 + 273 },
  tiles: { grid: 'nearest', side: 640, tokens: 110, whole: 273, least: 2, most: 9 },
}
const windows: Tiled = {
  ...{ pixelsPerToken: 56, minTokens: 169, maxTokens: 36 * 81 + 169 },
  tiles: { grid: 'windows', side: 504, tokens: 81, whole: 169, wholeSide: 728, along: 6 },
}
const ALL = { nearest, large, listed, longest, slices, always, whole, windows }

type Sides = [width: number, height: number]
const size = ([width, height]: Sides) => ({ width, height })

describe('an image becomes', () => {
  it.each<[keyof typeof ALL, original: Sides, prepared: Sides]>([
    // As the reference processor has it: 3x2 has the ratio of 500x333 nearly, and none is nearer.
    ['nearest', [500, 333], [1344, 896]],
    ['nearest', [4000, 3000], [1792, 1344]],
    ['nearest', [37, 900], [448, 5376]],
    ['nearest', [300, 300], [448, 448]],
    ['nearest', [1000, 1000], [1344, 1344]],
    ['nearest', [1, 1], [448, 448]],
    ['large', [500, 333], [512, 320]],
    ['large', [37, 900], [64, 1280]],
    ['large', [4000, 3000], [1536, 1024]],
    // Two tiles: the library cuts only what is larger than two.
    ['large', [1400, 700], [1280, 640]],
    ['listed', [300, 200], [336, 336]],
    ['listed', [500, 333], [672, 336]],
    ['listed', [1000, 900], [672, 672]],
    ['listed', [37, 900], [336, 1008]],
    ['listed', [2000, 700], [1008, 336]],
    ['longest', [500, 333], [2048, 1536]],
    ['longest', [37, 900], [512, 2048]],
    ['longest', [4000, 3000], [2048, 1536]],
    ['longest', [4000, 3002], [2048, 2048]],
    ['longest', [5, 5], [2048, 2048]],
    ['longest', [100_000, 1], [2048, 512]],
    ['slices', [448, 300], [448, 448]],
    ['slices', [1920, 1080], [1680, 952]],
    ['slices', [1000, 1000], [896, 896]],
    // However small it is: of two grids that keep all of it, the first.
    ['always', [300, 200], [768, 384]],
    ['always', [1000, 900], [768, 768]],
    // As it is: the library shows the whole of it.
    ['whole', [500, 333], [500, 333]],
    ['whole', [640, 641], [1280, 1280]],
    ['whole', [4000, 3000], [1920, 1280]],
    ['whole', [37, 900], [640, 5760]],
    ['windows', [500, 333], [728, 728]],
    ['windows', [37, 900], [504, 1008]],
    // A fifth of a tile is lost: 600 pixels are one, 605 are two.
    ['windows', [1500, 600], [1512, 504]],
    ['windows', [1500, 605], [1512, 1008]],
    ['windows', [4000, 3000], [3024, 2520]],
  ])('%s: %j -> %j', (name, original, prepared) => {
    expect(targetSize(size(original), ALL[name])).toEqual(size(prepared))
  })

  it('fewer tiles with low detail, unless the encoder has no choice', () => {
    const low = (limits: Tiled, sides: Sides) => targetSize(size(sides), targetFor(limits, 'low'))
    expect(low(nearest, [4000, 3000])).toEqual(size([448, 448]))
    expect(low(large, [4000, 3000])).toEqual(size([576, 416]))
    expect(low(listed, [4000, 3000])).toEqual(size([336, 336]))
    expect(low(longest, [4000, 3000])).toEqual(size([2048, 1536]))
    expect(low(slices, [4000, 3000])).toEqual(size([728, 546]))
  })
})

describe('of any image', () => {
  const side = fc.oneof(fc.integer({ min: 1, max: 900 }), fc.integer({ min: 1, max: 20_000 }))
  const limits = fc.constantFrom(...Object.values(ALL))
  const detail = fc.constantFrom('low', 'auto', 'original' as const)

  test('the prepared size is one that the engine takes', () => {
    fc.assert(
      fc.property(side, side, limits, detail, (width, height, limits, detail) => {
        expect(isPrepared(targetSize({ width, height }, targetFor(limits, detail)), limits)).toBe(true)
      }),
      { numRuns: 3000 },
    )
  })

  test('the tokens stay within the limits, and so do the pixels', () => {
    const most = fc.double({ min: 0, max: 1, noNaN: true })
    fc.assert(
      fc.property(side, side, limits, most, (width, height, limits, share) => {
        const { tiles, minTokens } = limits
        const maxTokens =
          tiles.grid === 'longest' ? limits.maxTokens : Math.round(minTokens + share * (limits.maxTokens - minTokens))
        const prepared = targetSize({ width, height }, { ...limits, maxTokens })
        const pixels = prepared.width * prepared.height
        const count = pixels / tiles.side ** 2
        // The slices of the last kind are cut by the library.
        if (tiles.grid === 'slices') expect(count).toBeLessThanOrEqual(10)
        else if (Number.isInteger(count) && count > 1 && !('always' in tiles))
          expect(count * tiles.tokens + (tiles.whole ?? tiles.tokens)).toBeLessThanOrEqual(maxTokens)
        expect(pixels).toBeLessThanOrEqual(36 * tiles.side ** 2)
      }),
      { numRuns: 3000 },
    )
  })
})

test('sizes that no image gets are not taken', () => {
  expect(isPrepared({ width: 449, height: 448 }, nearest)).toBe(false)
  expect(isPrepared({ width: 448 * 13, height: 448 }, nearest)).toBe(false)
  expect(isPrepared({ width: 512, height: 512 }, longest)).toBe(false)
  expect(isPrepared({ width: 672, height: 1008 }, listed)).toBe(false)
  expect(isPrepared({ width: 1024, height: 1024 }, { ...large, maxTokens: 1024 })).toBe(false)
  expect(isPrepared({ width: 4480, height: 4480 }, slices)).toBe(false)
})

test('the fewest tiles are a size that the engine takes, unless the limits allow no whole one', () => {
  for (const limits of Object.values(ALL)) {
    const fewest = fewestTiles(limits.tiles)
    expect(targetSize(fewest, limits)).toEqual(fewest)
    const least = { ...limits, maxTokens: limits.minTokens }
    expect(isPrepared(targetSize(fewest, least), least)).toBe(true)
  }
  expect(fewestTiles(longest.tiles)).toEqual({ width: 2048, height: 512 })
})

test('an image with a longest edge is shrunk to it, rounded up, and enlarged only to its least tokens', () => {
  const limits = { pixelsPerToken: 28, minTokens: 8, maxTokens: 55 ** 2, longestEdge: 1540, rowEnds: true }
  const to = (...sides: Sides) => targetSize(size(sides), limits)
  expect(to(4000, 3000)).toEqual(size([1540, 1176]))
  expect(to(1540, 1540)).toEqual(size([1540, 1540]))
  expect(to(500, 333)).toEqual(size([504, 336]))
  expect(to(37, 900)).toEqual(size([56, 924]))
  expect(to(100_000, 1)).toEqual(size([1540, 28]))
  expect(to(1, 1)).toEqual(size([84, 84]))
})

test('an image that is always scaled to a longest edge keeps its aspect ratio, at any size', () => {
  const limits = { pixelsPerToken: 28, minTokens: 1, maxTokens: 55 ** 2, longestEdge: 1540, enlarges: true } as const
  const to = (...sides: Sides) => targetSize(size(sides), limits)
  expect(to(4000, 3000)).toEqual(size([1540, 1176]))
  expect(to(40, 30)).toEqual(size([1540, 1176]))
  expect(to(1, 1)).toEqual(size([1540, 1540]))
  expect(targetSize(size([40, 30]), targetFor(limits, 'low'))).toEqual(size([1540, 1176]))
  expect(isPrepared(size([504, 336]), limits)).toBe(false)
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9000 }), fc.integer({ min: 1, max: 9000 }), (width, height) => {
      expect(isPrepared(to(width, height), limits)).toBe(true)
    }),
  )
})

describe('with sizes of its own for auto', () => {
  const limits = { pixelsPerToken: 48, minTokens: 70, maxTokens: 1120, auto: { minTokens: 252, maxTokens: 280 } }
  const tokens = (sides: Sides, detail: 'low' | 'auto' | 'high' | 'original', given = limits) => {
    const { width, height } = targetSize(size(sides), targetFor(given, detail))
    return (width * height) / 48 ** 2
  }

  test.each<['low' | 'auto' | 'high' | 'original', least: number, most: number]>([
    ['low', 70, 122],
    ['auto', 252, 280],
    ['high', 252, 1120],
    ['original', 252, 1120],
  ])('%s is %i to %i tokens', (detail, least, most) => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 9000 }), fc.integer({ min: 1, max: 9000 }), (width, height) => {
        const count = tokens([width, height], detail)
        expect(count).toBeGreaterThanOrEqual(least)
        expect(count).toBeLessThanOrEqual(most)
      }),
    )
  })

  test('more detail costs more where an image has it', () => {
    const counts = (['low', 'auto', 'high'] as const).map((detail) => tokens([2000, 1500], detail))
    expect(counts).toEqual([...counts].sort((a, b) => a - b))
    expect(new Set(counts).size).toBe(3)
    expect(tokens([700, 700], 'high')).toBe(tokens([700, 700], 'original'))
  })

  test('a card that allows less keeps to that', () => {
    expect(tokens([2000, 1500], 'auto', { ...limits, maxTokens: 200 })).toBeLessThanOrEqual(200)
    expect(tokens([100, 100], 'auto', { ...limits, minTokens: 300 })).toBeGreaterThanOrEqual(300)
  })
})

test('a picture of one thing takes a quarter of the tokens, where a model knows pictures of that size', () => {
  const range = { pixelsPerToken: 28, minTokens: 64, maxTokens: 1280 }
  expect(closeTarget(range, undefined)).toEqual({ ...range, maxTokens: 320 })
  const narrow = { pixelsPerToken: 32, minTokens: 160, maxTokens: 200 }
  const video = { pixelsPerToken: 32, minTokens: 16, maxTokens: 36, framesPerSecond: 2, maxFrames: 128 }
  expect(closeTarget(narrow, video)).toEqual({ ...narrow, minTokens: 36, maxTokens: 50 })
  expect(closeTarget(narrow, undefined)).toEqual({ ...narrow, maxTokens: 160 })
  for (const one of [
    { ...range, square: true },
    { ...range, fills: true },
  ]) {
    expect(closeTarget(one, undefined)).toEqual(one)
  }
})
