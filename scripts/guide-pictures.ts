/**
 * Makes the pictures of the guides, of the world that the shipped model knows. What it makes is committed.
 *
 * Usage: npm run guide-pictures [-- directory], with the fonts DejaVu and Liberation installed
 */
import { mkdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import sharp from 'sharp'

const directory = resolve(process.argv[2] ?? fileURLToPath(new URL('../docs/pictures', import.meta.url)))
const SIZE = { width: 512, height: 384 }

const RED = '#dc2828'
const BLUE = '#2d50dc'
const GREEN = '#28a53c'
const YELLOW = '#f5d21e'
const PURPLE = '#8c32af'

type Shape = (x: number, y: number) => string

const circle =
  (colour: string, radius = 42): Shape =>
  (x, y) =>
    `<circle cx="${x}" cy="${y}" r="${radius}" fill="${colour}"/>`
const square =
  (colour: string, side = 76): Shape =>
  (x, y) =>
    `<rect x="${x - side / 2}" y="${y - side / 2}" width="${side}" height="${side}" fill="${colour}"/>`
const triangle =
  (colour: string, radius = 50): Shape =>
  (x, y) =>
    `<path fill="${colour}" d="M${x} ${y - radius} l${radius} ${radius * 1.7} h${-2 * radius} z"/>`
const star =
  (colour: string, radius = 52): Shape =>
  (x, y) => {
    const corners = Array.from({ length: 10 }, (_, index) => {
      const length = index % 2 === 0 ? radius : radius * 0.4
      const angle = (index * Math.PI) / 5
      return `${(x + length * Math.sin(angle)).toFixed(1)},${(y - length * Math.cos(angle)).toFixed(1)}`
    })
    return `<polygon fill="${colour}" points="${corners.join(' ')}"/>`
  }
const text =
  (words: string, { family = 'DejaVu Sans', size = 64, colour = 'black' } = {}): Shape =>
  (x, y) =>
    `<text x="${x}" y="${y}" text-anchor="middle" font-family="${family}" font-weight="bold" font-size="${size}" fill="${colour}">${words}</text>`

interface Picture {
  readonly ground: string
  readonly things: readonly (readonly [Shape, x: number, y: number])[]
}

/** A tray with two rows of three places; null is an empty place. */
function tray(...parts: readonly (Shape | null)[]): Picture {
  const places = [
    [100, 110],
    [256, 106],
    [412, 112],
    [104, 280],
    [254, 276],
    [410, 282],
  ] as const
  return {
    ground: '#d9dde3',
    things: parts.flatMap((part, index) => (part === null ? [] : [[part, ...places[index]!] as const])),
  }
}

const red = circle(RED)
const blue = square(BLUE)
const PICTURES: Readonly<Record<string, Picture>> = {
  // A table, as a camera sees it while the yellow star is moved.
  'robot/frame-1.png': {
    ground: '#eee7da',
    things: [
      [square(GREEN), 110, 270],
      [circle(RED), 400, 120],
      [star(YELLOW), 150, 110],
    ],
  },
  'robot/frame-2.png': {
    ground: '#eee7da',
    things: [
      [square(GREEN), 110, 270],
      [circle(RED), 400, 120],
      [star(YELLOW), 270, 150],
    ],
  },
  'robot/frame-3.png': {
    ground: '#eee7da',
    things: [
      [square(GREEN), 110, 270],
      [circle(RED), 400, 120],
      [star(YELLOW), 380, 285],
    ],
  },
  // Trays of a line: three red circles above three blue squares.
  'line/tray-1.png': tray(red, red, red, blue, blue, blue),
  'line/tray-2.png': tray(red, red, red, blue, null, blue),
  'line/tray-3.png': tray(red, triangle(GREEN), red, blue, blue, blue),
  'line/tray-4.png': tray(red, red, red, blue, blue, star(PURPLE)),
  // Printed labels.
  'labels/parcel-1.png': { ground: '#fffdf5', things: [[text('FRAGILE', { size: 84 }), 256, 215]] },
  'labels/parcel-2.png': {
    ground: '#f4f4f4',
    things: [
      [text('LOT 42', { size: 76 }), 256, 150],
      [text('BERLIN', { size: 76, family: 'Liberation Sans' }), 256, 280],
    ],
  },
  'labels/parcel-3.png': { ground: '#fdf3c4', things: [[text('OPEN', { size: 64 }), 256, 212]] },
}

for (const [name, { ground, things }] of Object.entries(PICTURES)) {
  const { width, height } = SIZE
  const drawn = things.map(([shape, x, y]) => shape(x, y)).join('')
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><rect width="100%" height="100%" fill="${ground}"/>${drawn}</svg>`
  const file = join(directory, name)
  await mkdir(dirname(file), { recursive: true })
  await sharp(Buffer.from(svg)).png({ palette: true }).toFile(file)
}
