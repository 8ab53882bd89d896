import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Rectangle } from '../../lib/rectangle.ts'
import type { PixelRegion } from '../../media/coordinates.ts'
import type { Size } from '../../media/pixels.ts'
import { type Grid, planTiles, type TileGrid } from '../../media/tile-plan.ts'
import { type Found, foundAgain, isRight, lookAt, mergeFinds, type Thing, withoutRepeats } from './ladder.ts'

const limits = { pixelsPerToken: 32, minTokens: 160, maxTokens: 200 }
const PICTURE = { width: 4000, height: 3000 }
const gridsOf = (size: Size, grid: Grid) => planTiles(size, { grid, smallest: null }, limits)!
const box = (left: number, top: number, width: number, height = width): Rectangle => ({
  left,
  top,
  right: left + width,
  bottom: top + height,
})
const named = (mention: string, one: Rectangle): Found => ({ mention, box: one })

/** What a faultless model says of a tile: each thing in it, as far as the tile shows it. */
function seenIn(tile: PixelRegion, things: readonly Found[]): Found[] {
  return things.flatMap(({ mention, box }) => {
    const seen = {
      left: Math.max(box.left, tile.left),
      top: Math.max(box.top, tile.top),
      right: Math.min(box.right, tile.left + tile.width),
      bottom: Math.min(box.bottom, tile.top + tile.height),
    }
    return seen.right > seen.left && seen.bottom > seen.top ? [{ mention, box: seen }] : []
  })
}

function merged(size: Size, grids: readonly TileGrid[], things: readonly Found[]): Found[] {
  const finds = new Map(grids.flatMap(({ tiles }) => tiles.map((tile) => [tile, seenIn(tile, things)] as const)))
  return mergeFinds(size, grids, finds).map(({ mention, box }) => ({ mention, box }))
}

const sorted = (things: readonly Found[]) => things.map((thing) => JSON.stringify(thing)).sort()

/** Things in cells of their own, which they may fill: neighbours touch. */
const scene = fc
  .record({
    picture: fc.record({ width: fc.integer({ min: 40, max: 6000 }), height: fc.integer({ min: 40, max: 6000 }) }),
    grid: fc.constantFrom<Grid>([1, 1], [2, 1], [3, 3], [8, 6], [5, 9]),
    cells: fc.tuple(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 12 })),
    fill: fc.constantFrom(0.3, 0.8, 1),
    labels: fc.array(fc.constantFrom('red circle', 'blue star', null), { minLength: 144, maxLength: 144 }),
  })
  .map(({ picture, grid, cells: [columns, rows], fill, labels }) => {
    const [width, height] = [Math.floor(picture.width / columns), Math.floor(picture.height / rows)]
    const things = labels.slice(0, columns * rows).flatMap((label, index): Found[] => {
      if (label === null) return []
      const [column, row] = [index % columns, Math.floor(index / columns)]
      return [named(label, box(column * width, row * height, Math.ceil(fill * width), Math.ceil(fill * height)))]
    })
    return { picture, grid, things }
  })

test('with a faultless model, each thing of any size at any place is found once, and nothing else is', () => {
  fc.assert(
    fc.property(scene, ({ picture, grid, things }) => {
      expect(sorted(merged(picture, gridsOf(picture, grid), things))).toEqual(sorted(things))
    }),
  )
})

test('the edges of the picture are no cuts', () => {
  const things = [box(0, 0, 90), box(3910, 2910, 90), box(0, 2910, 90), box(3910, 0, 90)].map((one) => named('a', one))
  expect(sorted(merged(PICTURE, gridsOf(PICTURE, [8, 6]), things))).toEqual(sorted(things))
})

test('a box around several finds of its label is doubtful, one around finds of other labels is not', () => {
  const grids = gridsOf(PICTURE, [8, 6])
  const small = [named('a', box(300, 300, 60)), named('a', box(400, 380, 60)), named('b', box(1000, 1000, 60))]
  const around = named('a', box(280, 280, 600))
  const large = named('a', box(900, 900, 400))
  const finds = new Map([
    ...grids[0]!.tiles.map((tile) => [tile, seenIn(tile, small)] as const),
    [grids[2]!.tiles[0]!, [around, large]],
  ])
  const things = mergeFinds(PICTURE, grids, finds)
  const sure = things.filter(({ isDoubtful }) => !isDoubtful)
  expect(sure.map(({ box }) => box)).toEqual([...small, large].map(({ box }) => box))
  expect(things.filter(({ isDoubtful }) => isDoubtful).map(({ box }) => box)).toEqual([around.box])
  // Parts of one large thing are not found again, several small things are.
  const found = (things: readonly Found[], isAlone = false) => things.map((thing) => ({ ...thing, isAlone }))
  const boxes = (things: readonly Found[]) => things.map(({ box }) => box)
  expect(boxes(withoutRepeats<Found>(found([around, small[0]!]), []))).toContain(around.box)
  expect(boxes(withoutRepeats<Found>(found([around, ...small]), []))).toEqual(boxes(small))
  // What its own look does not show is a part of it.
  expect(boxes(withoutRepeats<Found>(found([around, ...small], true), []))).toEqual(boxes([around, small[2]!]))
})

test('what one answer tells apart stays apart, and what neighbours both find is one thing', () => {
  const [grid] = gridsOf(PICTURE, [8, 6])
  const [first, second] = grid!.tiles as [PixelRegion, PixelRegion]
  // Both tiles show the strip, where two things lie one upon the other.
  const [one, other] = [named('a', box(495, 100, 80)), named('a', box(500, 110, 80))]
  const finds = new Map([
    [first, [one, other]],
    [second, [other, one]],
  ])
  expect(mergeFinds(PICTURE, [grid!], finds).map(({ box }) => box)).toEqual([one.box, other.box])
  expect(mergeFinds(PICTURE, [grid!], finds).map(({ seen }) => seen.size)).toEqual([2, 2])
})

test('what a coarser grid sees of things that the finer one ought to see whole is doubtful', () => {
  const grids = gridsOf(PICTURE, [8, 6])
  const [coarse] = grids[1]!.tiles as [PixelRegion]
  const found = [named('a', box(200, 200, 80)), named('a', box(500, 500, 200))]
  const things = mergeFinds(PICTURE, grids, new Map([[coarse, found]]))
  expect(things).toMatchObject([
    { box: found[0]!.box, isCoarse: true, isDoubtful: true },
    { box: found[1]!.box, isCoarse: true, isDoubtful: false },
  ])
})

test('a second look lies within the picture and holds the thing, which takes at least a third of its side', () => {
  const share = fc.double({ min: 0, max: 1, noNaN: true })
  const side = fc.integer({ min: 1, max: 5000 })
  fc.assert(
    fc.property(side, side, fc.tuple(share, share, share, share), (width, height, [w, h, x, y]) => {
      const thing = box(x * (1 - w) * width, y * (1 - h) * height, w * width, h * height)
      const crop = lookAt(named('a', thing), { width, height })
      expect(crop.left).toBeGreaterThanOrEqual(0)
      expect(crop.top).toBeGreaterThanOrEqual(0)
      expect(crop.left + crop.width).toBeLessThanOrEqual(width)
      expect(crop.top + crop.height).toBeLessThanOrEqual(height)
      expect(Math.min(crop.width, crop.height)).toBeGreaterThan(0)
      // The crop begins at a whole pixel.
      expect(crop.left).toBeLessThanOrEqual(thing.left + 1)
      expect(crop.top).toBeLessThanOrEqual(thing.top + 1)
      expect(crop.left + crop.width).toBeGreaterThanOrEqual(thing.right - 1)
      expect(crop.top + crop.height).toBeGreaterThanOrEqual(thing.bottom - 1)
      expect(Math.max(crop.width, crop.height)).toBeLessThanOrEqual(Math.ceil(3 * Math.max(w * width, h * height, 1)))
    }),
  )
})

test('a thing is kept when a look finds it again, with the box that has the most in common', () => {
  const thing = named('a', box(100, 100, 80))
  const near = named('a', box(104, 98, 80))
  const looks = [named('a', box(130, 100, 80)), near, named('b', box(100, 100, 80))]
  expect(foundAgain(thing, looks)).toEqual({ ...near, isAlone: true })
  const parts = [named('a', box(110, 110, 20)), named('a', box(140, 140, 20))]
  expect(foundAgain(thing, [near, ...parts])?.isAlone).toBe(false)
  expect(foundAgain(thing, [named('a', box(150, 100, 80))])).toBeNull()
  expect(foundAgain(thing, [])).toBeNull()
})

test('looks that find the same thing count once, and touching things stay two', () => {
  const [one, touching] = [named('a', box(100, 100, 80)), named('a', box(180, 100, 80))]
  const repeat = named('a', box(102, 101, 80))
  const other = named('b', one.box)
  const found = (...things: Found[]) => things.map((thing) => ({ ...thing, isAlone: true }))
  expect(withoutRepeats<Found>(found(one, touching, repeat, other), [])).toEqual(found(one, touching, other))
  expect(withoutRepeats<Found>(found(repeat, touching), found(one, other))).toEqual(found(one, other, touching))
})

test('of a likely whole thing nothing else needs to tell, of an unlikely one neither, and of what others touch a look does', () => {
  const [finest, , coarse] = gridsOf(PICTURE, [8, 6]) as [TileGrid, TileGrid, TileGrid]
  const thing = (one: Rectangle, grid = finest): Thing => {
    const tile = grid.tiles[0]!
    return { ...named('a', one), seen: new Set([tile]), isCoarse: grid !== finest, isDoubtful: false }
  }
  const told = (one: Thing, confidence: number, others: readonly Thing[] = []) =>
    isRight(one, { confidence }, [one, ...others], PICTURE)
  const whole = thing(box(100, 100, 80))
  expect([0.995, 0.9, 0.3, 0.29].map((confidence) => told(whole, confidence))).toEqual([true, null, null, false])
  expect(told({ ...whole, isDoubtful: true }, 0.995)).toBeNull()
  // A tile's side is 606 pixels.
  expect(told(thing(box(515, 100, 80)), 0.995)).toBeNull()
  expect(told(whole, 0.995, [thing(box(179, 100, 80))])).toBeNull()
  expect(told(whole, 0.995, [thing(box(180, 100, 80)), { ...whole, mention: 'b' }])).toBe(true)
  // Finer tiles show parts of a large thing, and what lies at its edge.
  expect(told(thing(box(100, 100, 700), coarse), 0.995, [thing(box(300, 300, 80))])).toBe(true)
  expect(told(thing(box(100, 100, 700), coarse), 0.995, [thing(box(790, 300, 80))])).toBeNull()
})
