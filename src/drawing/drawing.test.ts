import sharp from 'sharp'
import { expect, test } from 'vitest'
import { drawMarks } from './draw.ts'
import { LabelPlaces } from './label-places.ts'
import { Palette } from './palette.ts'
import { canStroke, strokeText } from './stroke-font.ts'

test('the font has all of printable ASCII, and accented letters by their base', () => {
  const ascii = String.fromCharCode(...Array.from({ length: 95 }, (_, i) => 32 + i))
  expect(canStroke(ascii)).toBe(true)
  expect(canStroke('Größe, façade')).toBe(true)
  expect(canStroke('猫')).toBe(false)
  expect(strokeText('ab', 12, '#000').width).toBeGreaterThan(strokeText('a', 12, '#000').width)
})

test('every label has a colour of its own, and text that stands out from it', () => {
  const palette = new Palette()
  const colours = Array.from({ length: 60 }, (_, i) => palette.of(`label ${i}`))
  expect(new Set(colours.map(({ fill }) => fill)).size).toBe(60)
  expect(palette.of('label 3')).toBe(colours[3])
  for (const { fill } of colours) expect(fill).toMatch(/^#[0-9a-f]{6}$/)
})

test('a label that names a colour has a shade of it, after any other labels', () => {
  const palette = new Palette()
  for (let i = 0; i < 3; i++) palette.of(`thing ${i}`)
  const hues = { red: 3, orange: 36, yellow: 47, green: 135, teal: 165, cyan: 197, blue: 210, purple: 280, pink: 336 }
  const fills: string[] = []
  for (const noun of ['star', 'circle', 'square', 'heart']) {
    for (const [word, hue] of Object.entries(hues)) {
      const { fill, text } = palette.of(`${word} ${noun}`)
      fills.push(fill)
      // The things before them have taken the first red, blue and green.
      if (noun !== 'heart') expect(Math.abs(((hueOf(fill) - hue + 540) % 360) - 180)).toBeLessThan(12)
      expect(contrast(fill, text)).toBeGreaterThan(3)
      // On the surfaces of the Studio, light and dark.
      for (const ground of ['#ffffff', '#1c1f21']) expect(contrast(fill, ground)).toBeGreaterThan(1.4)
    }
  }
  expect(new Set(fills).size).toBe(fills.length)
  expect(palette.of('blue star').fill).toBe(fills[6])
  // Parts of other words name no colour.
  expect(palette.of('a bored constructor').fill).not.toBe(palette.of('RED').fill)
  expect(new Palette().of('Infrared').fill).toBe(new Palette().of('anything').fill)
})

function rgb(hex: string): [number, number, number] {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16) / 255) as [number, number, number]
}

/** In degrees. */
function hueOf(hex: string): number {
  const [r, g, b] = rgb(hex)
  return ((Math.atan2(Math.sqrt(3) * (g - b), 2 * r - g - b) * 180) / Math.PI + 360) % 360
}

/** As WCAG 2 defines it. */
function contrast(one: string, other: string): number {
  const [lighter, darker] = [one, other]
    .map((hex) => {
      const [r, g, b] = rgb(hex).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
      return 0.2126 * r! + 0.7152 * g! + 0.0722 * b! + 0.05
    })
    .sort((a, b) => b - a)
  return lighter! / darker!
}

test('labels stay within the picture and apart from each other', () => {
  const places = new LabelPlaces({ width: 200, height: 200 })
  const label = { width: 60, height: 20 }
  const mark = { left: 150, top: 0, right: 200, bottom: 200 }
  const taken = Array.from({ length: 3 }, () => places.take(mark, label, 2))
  for (const { x, y } of taken) {
    expect(x).toBeGreaterThanOrEqual(0)
    expect(x + label.width).toBeLessThanOrEqual(200)
    expect(y).toBeGreaterThanOrEqual(0)
    expect(y + label.height).toBeLessThanOrEqual(200)
  }
  expect(new Set(taken.map(({ x, y }) => `${x} ${y}`)).size).toBe(3)
})

test.each([
  ['tall', 40, 4000],
  ['wide', 4000, 40],
  ['of one pixel', 1, 1],
])('a picture that is %s, with labels that do not fit and are not markup', async (_, width, height) => {
  const picture = await sharp({ create: { width, height, channels: 4, background: '#80808080' } })
    .png()
    .toBuffer()
  const marks = [
    {
      label: '<b>&"a label that is much wider than the picture',
      kind: 'box' as const,
      points: [
        { x: 0, y: 0 },
        { x: width - 1, y: height - 1 },
      ],
    },
    { label: '猫 & кот', kind: 'point' as const, points: [{ x: width - 1, y: height - 1 }] },
    {
      label: '',
      kind: 'polygon' as const,
      points: [
        { x: 0, y: 0 },
        { x: 1, y: 0 },
        { x: 0, y: 1 },
      ],
    },
  ]
  for (const format of ['png', 'jpeg', 'webp'] as const) {
    const drawn = await sharp(await drawMarks(picture, marks, format)).metadata()
    const times = Math.max(1, Math.ceil(400 / Math.max(width, height)))
    expect(drawn).toMatchObject({ format, width: width * times, height: height * times })
  }
})
