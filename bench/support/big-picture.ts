import sharp from 'sharp'
import type { DetectedBox } from '../../src/exports/detected-picture.ts'
import { Random } from '../simulate/random.ts'

export interface BigPicture {
  readonly png: Buffer
  readonly categories: readonly string[]
  readonly truth: readonly DetectedBox[]
}

export const BIG_SIZE = { width: 4000, height: 3000 }
/** Sides of things in pixels, the largest first: they get their places first. */
const SIZES = [
  { count: 4, from: 440, to: 840 },
  { count: 56, from: 44, to: 120 },
]
/** Between the small ones and the large ones. */
export const LARGE_SIDE = 240
const CATEGORIES = 4
/** The least pixels between two boxes. */
const MARGIN = 4

/** The colours of the shipped model's world. */
const COLOURS = {
  red: [218, 38, 38],
  green: [40, 160, 60],
  blue: [45, 85, 222],
  yellow: [242, 216, 40],
  orange: [245, 138, 25],
  purple: [135, 50, 172],
  pink: [245, 130, 188],
  brown: [125, 75, 38],
  black: [22, 22, 22],
} as const
type Colour = readonly [red: number, green: number, blue: number]
const GROUNDS: readonly Colour[] = [
  [255, 255, 255],
  [244, 243, 238],
  [205, 205, 205],
  [30, 30, 40],
  [214, 228, 240],
  [250, 235, 215],
]
/** The least sum of differences between the channels of a thing and its ground. */
const CONTRAST = 140

/** Half of the width of a cross's arms. */
const ARM = 0.34
type Outline = readonly (readonly [x: number, y: number])[]
const polar = (degrees: number, radius = 1) => {
  const angle = (degrees * Math.PI) / 180
  return [radius * Math.cos(angle), radius * Math.sin(angle)] as const
}
const turns = (count: number, of: (index: number) => readonly [number, number]): Outline =>
  Array.from({ length: count }, (_, index) => of(index))
const heart = (degrees: number) => {
  const t = (degrees * Math.PI) / 180
  const y = 13 * Math.cos(t) - 5 * Math.cos(2 * t) - 2 * Math.cos(3 * t) - Math.cos(4 * t)
  return [(16 * Math.sin(t) ** 3) / 17, -y / 17] as const
}
/** The outlines of `training/lookout_training/world/shapes.py`, in a circle of radius 1. */
const OUTLINES: Readonly<Record<string, Outline>> = {
  circle: turns(72, (index) => polar(5 * index)),
  square: turns(4, (index) => polar(45 + 90 * index, 0.85 * Math.SQRT2)),
  triangle: [polar(-90), polar(30), polar(150)],
  star: turns(10, (index) => polar(-90 + 36 * index, index % 2 === 0 ? 1 : 0.45)),
  diamond: [
    [0, -1],
    [0.72, 0],
    [0, 1],
    [-0.72, 0],
  ],
  cross: turns(4, (index) => polar(90 * index)).flatMap(([x, y]) => [
    turned(x, y, 1, -ARM),
    turned(x, y, 1, ARM),
    turned(x, y, ARM, ARM),
  ]),
  heart: turns(28, (index) => heart((360 * index) / 28)),
  hexagon: turns(6, (index) => polar(60 * index)),
}

/** A point that lies so far ahead and aside of a direction. */
function turned(x: number, y: number, ahead: number, aside: number): readonly [number, number] {
  return [ahead * x - aside * y, ahead * y + aside * x]
}

/**
 * Sixty things of four categories, of which four are large. Equal seeds give equal pictures.
 * @param tint changes every pixel of the ground a little, and nothing else.
 */
export async function bigPicture(seed: number, tint = 0): Promise<BigPicture> {
  const random = new Random(seed)
  const pick = <Item>(items: readonly Item[]) => items[random.below(items.length)]!
  const ground = pick(GROUNDS).map((value) => Math.abs(value - tint))
  const colours = (Object.keys(COLOURS) as (keyof typeof COLOURS)[]).filter(
    (name) => COLOURS[name].reduce((sum, value, index) => sum + Math.abs(value - ground[index]!), 0) > CONTRAST,
  )
  const kinds = new Map<string, { colour: Colour; outline: Outline }>()
  while (kinds.size < CATEGORIES) {
    const [colour, shape] = [pick(colours), pick(Object.keys(OUTLINES))]
    kinds.set(`${colour} ${shape}`, { colour: COLOURS[colour], outline: OUTLINES[shape]! })
  }
  const categories = [...kinds.keys()]
  const truth: DetectedBox[] = []
  const drawn: string[] = []
  for (const { count, from, to } of SIZES) {
    for (let left = count; left > 0; ) {
      const radius = (from + random.next() * (to - from)) / 2
      const label = pick(categories)
      const { colour, outline } = kinds.get(label)!
      const x = radius + random.next() * (BIG_SIZE.width - 2 * radius)
      const y = radius + random.next() * (BIG_SIZE.height - 2 * radius)
      const points = outline.map(([across, down]) => [x + radius * across, y + radius * down] as const)
      const [xs, ys] = [points.map((point) => point[0]), points.map((point) => point[1])]
      const box = { left: Math.min(...xs), top: Math.min(...ys), right: Math.max(...xs), bottom: Math.max(...ys) }
      if (truth.some((other) => touches(box, other))) continue
      truth.push({ label, ...box })
      const fill = colour.map((value) => Math.min(255, Math.max(0, value + random.below(29) - 14)))
      drawn.push(
        `<polygon points="${points.map((point) => point.join(',')).join(' ')}" fill="rgb(${fill.join(',')})"/>`,
      )
      left--
    }
  }
  const { width, height } = BIG_SIZE
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><rect width="100%" height="100%" fill="rgb(${ground.join(',')})"/>${drawn.join('')}</svg>`
  return { png: await sharp(Buffer.from(svg)).removeAlpha().png().toBuffer(), categories, truth }
}

function touches(one: Omit<DetectedBox, 'label'>, other: DetectedBox): boolean {
  return (
    one.left < other.right + MARGIN &&
    other.left < one.right + MARGIN &&
    one.top < other.bottom + MARGIN &&
    other.top < one.bottom + MARGIN
  )
}
