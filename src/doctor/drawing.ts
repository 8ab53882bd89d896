import sharp from 'sharp'
import type { Size } from '../media/pixels.ts'
import { type Box, centreOf } from './coordinates/convention.ts'
import { seededRandom, shuffled } from './random.ts'

/** Colours that all models call by the same name. */
export const COLOURS = {
  red: [220, 20, 30],
  green: [20, 150, 50],
  blue: [30, 60, 220],
  yellow: [250, 210, 20],
} as const
export type Colour = keyof typeof COLOURS
export const COLOUR_NAMES = Object.keys(COLOURS) as Colour[]

export interface Shape {
  readonly kind: 'square' | 'circle'
  readonly colour: Colour
  readonly box: Box
}

/** An image with one shape to ask about, and two others of the other kind and of other colours. */
export interface Drawing {
  readonly size: Size
  readonly target: Shape
  readonly others: readonly Shape[]
}

/** Landscape, portrait and square. No side is near 1000 or 1024: pixels must not look like a grid. */
const SIZES: readonly Size[] = [
  { width: 720, height: 440 },
  { width: 460, height: 700 },
  { width: 560, height: 560 },
]
/** Sides of shapes, as shares of the image's shorter side. */
const SIDES = [0.2, 0.27, 0.15, 0.23]
/** Centres lie within this middle share of either side, so that any shape fits on the image around any centre. */
const MIDDLE = 0.6
/** Steps of the R2 sequence, whose points are evenly spread for any number of them. */
const SPREAD = { x: 0.7548776662466927, y: 0.5698402909980532 }

/**
 * Plans images with targets of each kind, colour and size, all over the image. Places and colours are assigned at
 * random, so that a model that does not see them can only guess.
 */
export function planDrawings(count: number, seed = 1): Drawing[] {
  const random = seededRandom(seed)
  const middle = (share: number) => 0.5 + (share - 0.5) * MIDDLE
  const centres = Array.from({ length: count }, (_, i) => ({
    x: middle((0.5 + (i + 1) * SPREAD.x) % 1),
    y: middle((0.5 + (i + 1) * SPREAD.y) % 1),
  }))
  const colours = shuffled(
    centres.map((_, i) => COLOUR_NAMES[i % COLOUR_NAMES.length]!),
    random,
  )
  return shuffled(centres, random).map((centre, i) => {
    const size = SIZES[i % SIZES.length]!
    const kind = i % 2 === 0 ? 'square' : 'circle'
    const target: Shape = { kind, colour: colours[i]!, box: boxAround(centre, SIDES[i % SIDES.length]!, size) }
    const other = kind === 'square' ? 'circle' : 'square'
    const left = shuffled(
      COLOUR_NAMES.filter((colour) => colour !== target.colour),
      random,
    )
    const others: Shape[] = []
    for (const colour of left.slice(0, 2))
      others.push({ kind: other, colour, box: freeBox([target, ...others], size, random) })
    return { size, target, others }
  })
}

export async function toPng({ size, target, others }: Drawing): Promise<Buffer> {
  const { width, height } = size
  const data = Buffer.alloc(width * height * 3, 255)
  for (const shape of [target, ...others]) {
    const { from, to } = shape.box
    for (let y = Math.floor(from.y * height); y < to.y * height; y++)
      for (let x = Math.floor(from.x * width); x < to.x * width; x++)
        if (covers(shape, (x + 0.5) / width, (y + 0.5) / height)) data.set(COLOURS[shape.colour], (y * width + x) * 3)
  }
  return sharp(data, { raw: { width, height, channels: 3 } })
    .png({ compressionLevel: 1 })
    .toBuffer()
}

function covers({ kind, box }: Shape, x: number, y: number): boolean {
  const centre = centreOf(box)
  const across = (x - centre.x) / (box.to.x - centre.x)
  const down = (y - centre.y) / (box.to.y - centre.y)
  return kind === 'square' ? Math.abs(across) <= 1 && Math.abs(down) <= 1 : across ** 2 + down ** 2 <= 1
}

/** A place that touches no other shape. Each shape takes at most one of the four corners, so two leave room. */
function freeBox(shapes: readonly Shape[], size: Size, random: () => number): Box {
  for (;;) {
    const centre = { x: 0.15 + 0.7 * random(), y: 0.15 + 0.7 * random() }
    const box = boxAround(centre, 0.18, size)
    const isFree = shapes.every(
      ({ box: { from, to } }) =>
        box.to.x < from.x - 0.03 || box.from.x > to.x + 0.03 || box.to.y < from.y - 0.03 || box.from.y > to.y + 0.03,
    )
    if (isFree) return box
  }
}

/** On whole pixels, so that a box is where its colour is. @param side as a share of the shorter side. */
function boxAround(centre: { x: number; y: number }, side: number, { width, height }: Size): Box {
  const half = Math.round((side * Math.min(width, height)) / 2)
  const x = Math.round(centre.x * width)
  const y = Math.round(centre.y * height)
  return {
    from: { x: (x - half) / width, y: (y - half) / height },
    to: { x: (x + half) / width, y: (y + half) / height },
  }
}
