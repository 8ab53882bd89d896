import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Size } from './pixels.ts'
import { fittingGrid, type Grid, MOST_TILES, planTiles, type TileGrid } from './tile-plan.ts'

/** Limits of the shipped model: 452 pixels a side. */
const limits = { pixelsPerToken: 32, minTokens: 160, maxTokens: 200 }
const AUTO = { grid: 'auto', smallest: null } as const
const gridsOf = (plan: readonly TileGrid[] | null) => plan?.map(({ grid }) => grid)
const count = (plan: readonly TileGrid[]) => plan.reduce((sum, { tiles }) => sum + tiles.length, 0)

const side = fc.integer({ min: 1, max: 12_000 })
const picture: fc.Arbitrary<Size> = fc.record({ width: side, height: side })
const counts = fc.integer({ min: 1, max: 10 })
const grid: fc.Arbitrary<Grid> = fc.tuple(counts, counts).filter(([columns, rows]) => columns * rows <= 64)

test('12 megapixels: tiles that show things of 47 pixels, or of those that are named', () => {
  const size = { width: 4000, height: 3000 }
  const [usual, larger] = [[[8, 6], [4, 3], [2, 2], [1, 1]], [[7, 5], [3, 2], [1, 1]]] // biome-ignore format: two lists
  expect(gridsOf(planTiles(size, AUTO, limits))).toEqual(usual)
  expect(gridsOf(planTiles(size, { grid: 'auto', smallest: 47 }, limits))).toEqual(usual)
  expect(gridsOf(planTiles(size, { grid: 'auto', smallest: 60 }, limits))).toEqual(larger)
})

test('a picture that is no larger than a tile is not cut', () => {
  expect(gridsOf(planTiles({ width: 640, height: 480 }, AUTO, limits))).toEqual([[1, 1]])
  expect(gridsOf(planTiles({ width: 1300, height: 1300 }, { grid: 'auto', smallest: 100 }, limits))).toEqual([[1, 1]])
})

test('a thing no larger than the overlap lies whole in a tile, wherever it is', () => {
  const share = fc.double({ min: 0, max: 1, noNaN: true })
  fc.assert(
    fc.property(picture, grid, fc.tuple(share, share, share, share), (size, wanted, [across, down, x, y]) => {
      for (const { overlap, tiles } of planTiles(size, { grid: wanted, smallest: null }, limits)!) {
        const thing = { width: across * overlap.width, height: down * overlap.height }
        const [left, top] = [x * (size.width - thing.width), y * (size.height - thing.height)]
        const slack = 1e-6
        const holds = tiles.some(
          (tile) =>
            left >= tile.left - slack &&
            top >= tile.top - slack &&
            left + thing.width <= tile.left + tile.width + slack &&
            top + thing.height <= tile.top + tile.height + slack,
        )
        expect(holds).toBe(true)
      }
    }),
  )
})

test('tiles of a grid have one size, lie within the picture and overlap by a fifth, the coarsest ones by half', () => {
  fc.assert(
    fc.property(picture, grid, (size, wanted) => {
      const plan = planTiles(size, { grid: wanted, smallest: null }, limits)!
      expect(plan[0]!.grid).toEqual(wanted)
      expect(gridsOf(plan)!.at(-1)).toEqual([1, 1])
      for (const [level, { grid, overlap, tiles }] of plan.entries()) {
        const { width, height } = tiles[0]!
        const share = level > 0 && Math.max(...grid) <= 3 ? 1 / 2 : 1 / 5
        expect(tiles).toHaveLength(grid[0] * grid[1])
        for (const tile of tiles) {
          expect(tile).toMatchObject({ width, height })
          expect(tile.left + width).toBeLessThanOrEqual(size.width)
          expect(tile.top + height).toBeLessThanOrEqual(size.height)
          expect(Math.min(tile.left, tile.top)).toBeGreaterThanOrEqual(0)
        }
        if (grid[0] > 1) expect(Math.abs(overlap.width - width * share)).toBeLessThan(3)
        if (grid[1] > 1) expect(Math.abs(overlap.height - height * share)).toBeLessThan(3)
      }
    }),
  )
})

test('auto: never too many tiles, and none with more than twice the pixels that the model gets, if they are not', () => {
  fc.assert(
    fc.property(picture, (size) => {
      const plan = planTiles(size, AUTO, limits)!
      expect(count(plan)).toBeLessThanOrEqual(MOST_TILES)
      const { width, height } = plan[0]!.tiles[0]!
      if (count(plan) < 60) expect(Math.max(width, height)).toBeLessThanOrEqual(641)
    }),
  )
})

test('too many tiles: no plan, and a grid that fits', () => {
  const wish = fc.record({
    grid: fc.oneof(fc.constant('auto' as const), fc.tuple(fc.integer({ min: 1, max: 128 }), counts)),
    smallest: fc.integer({ min: 1, max: 200 }),
  })
  let refused = 0
  fc.assert(
    fc.property(picture, wish, (size, wanted) => {
      const plan = planTiles(size, wanted, limits)
      if (plan === null) {
        refused++
        expect(planTiles(size, { grid: fittingGrid(size, wanted), smallest: null }, limits)).not.toBeNull()
      } else expect(count(plan)).toBeLessThanOrEqual(MOST_TILES)
    }),
  )
  expect(refused).toBeGreaterThan(0)
})
