import sharp from 'sharp'
import { expect, test } from 'vitest'
import { centreOf } from './coordinates/convention.ts'
import { COLOUR_NAMES, COLOURS, type Drawing, planDrawings, type Shape, toPng } from './drawing.ts'

const shapesOf = ({ target, others }: Drawing) => [target, ...others]
const touch = ({ box: a }: Shape, { box: b }: Shape) =>
  a.from.x < b.to.x && b.from.x < a.to.x && a.from.y < b.to.y && b.from.y < a.to.y

test('every drawing has one shape of its kind and colour, which touches no other one and no edge', () => {
  for (const seed of [1, 2, 3, 4, 5]) {
    for (const drawing of planDrawings(24, seed)) {
      const { target, others } = drawing
      expect(others.filter(({ kind, colour }) => kind === target.kind || colour === target.colour)).toEqual([])
      const shapes = shapesOf(drawing)
      expect(shapes.filter((one) => shapes.some((other) => other !== one && touch(one, other)))).toEqual([])
      for (const { from, to } of shapes.map(({ box }) => box)) {
        expect(Math.min(from.x, from.y)).toBeGreaterThan(0)
        expect(Math.max(to.x, to.y)).toBeLessThan(1)
      }
    }
  }
})

test('a guesser gains nothing: every colour is the answer as often, and places are spread', () => {
  const drawings = planDrawings(24)
  for (const name of COLOUR_NAMES) expect(drawings.filter(({ target }) => target.colour === name)).toHaveLength(6)
  const centres = drawings.map(({ target }) => centreOf(target.box))
  for (const half of [centres.filter(({ x }) => x < 0.5), centres.filter(({ y }) => y < 0.5)]) {
    expect(half.length).toBeGreaterThanOrEqual(9)
    expect(half.length).toBeLessThanOrEqual(15)
  }
  expect(planDrawings(24)).toEqual(drawings)
  expect(planDrawings(24, 2)).not.toEqual(drawings)
})

test('shapes are drawn where they should be', async () => {
  const drawing = planDrawings(3)[1]!
  const { width, height } = drawing.size
  const { data, info } = await sharp(await toPng(drawing))
    .raw()
    .toBuffer({ resolveWithObject: true })
  expect(info).toMatchObject({ width, height, channels: 3 })
  const pixel = (x: number, y: number) => [...data.subarray((y * width + x) * 3, (y * width + x) * 3 + 3)]
  for (const { box, colour } of shapesOf(drawing)) {
    const { x, y } = centreOf(box)
    const [row, left, right] = [Math.round(y * height), Math.round(box.from.x * width), Math.round(box.to.x * width)]
    expect(pixel(Math.round(x * width), row)).toEqual([...COLOURS[colour]])
    expect(pixel(left, row)).toEqual([...COLOURS[colour]])
    expect(pixel(right - 1, row)).toEqual([...COLOURS[colour]])
    expect(pixel(left - 1, row)).toEqual([255, 255, 255])
    expect(pixel(right, row)).toEqual([255, 255, 255])
  }
})
