import sharp from 'sharp'
import { seededRandom } from '../../src/doctor/random.ts'
import type { DetectedBox } from '../../src/exports/detected-picture.ts'

/** Colours that the shipped model knows. */
export const COLOURS = {
  red: '#da2626',
  green: '#2ea043',
  blue: '#2458d6',
  yellow: '#f0d020',
  orange: '#f28c1e',
  purple: '#8236b4',
  pink: '#f59bc1',
  brown: '#7a4a24',
  black: '#181818',
}
/** In a square of 100 x 100 around its centre. */
export const SHAPES = {
  circle: '<circle r="40"/>',
  square: '<rect x="-38" y="-38" width="76" height="76"/>',
  triangle: '<path d="M0-42 42 36H-42Z"/>',
  diamond: '<path d="M0-46 36 0 0 46-36 0Z"/>',
  cross: '<path d="M-14-42H14V-14H42V14H14V42H-14V14H-42V-14H-14Z"/>',
  hexagon: '<path d="M-42 0-21-37H21L42 0 21 37H-21Z"/>',
}
/** Half of their widths and heights there: left, top, right, bottom. */
const SIDES: Readonly<Record<keyof typeof SHAPES, readonly [number, number, number, number]>> = {
  circle: [40, 40, 40, 40],
  square: [38, 38, 38, 38],
  triangle: [42, 42, 42, 36],
  diamond: [36, 46, 36, 46],
  cross: [42, 42, 42, 42],
  hexagon: [42, 37, 42, 37],
}

/** An SVG of shapes on a plain ground. */
export function drawing(side: number, ground: string, shapes: readonly Shape[]): string {
  const drawn = shapes.map(({ kind, colour, x, y, scale }) => {
    return `<g transform="translate(${x} ${y}) scale(${scale})" fill="${COLOURS[colour]}">${SHAPES[kind]}</g>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${side}" height="${side}"><rect width="100%" height="100%" fill="${ground}"/>${drawn.join('')}</svg>`
}

export interface Shape {
  readonly kind: keyof typeof SHAPES
  readonly colour: keyof typeof COLOURS
  /** Pixels of its centre. */
  readonly x: number
  readonly y: number
  /** 1: a square of 100 pixels. */
  readonly scale: number
}

const SIDE = 256

/** A crowded picture, strongly compressed, with the boxes of all that is on it; the same for the same seed. */
export async function crowdedPicture(seed: number): Promise<{ readonly url: string; readonly boxes: DetectedBox[] }> {
  const random = seededRandom(seed)
  const one = <Item>(items: readonly Item[]) => items[Math.floor(random() * items.length)]!
  const kinds = Array.from({ length: 3 }, () => one(Object.keys(SHAPES) as Shape['kind'][]))
  const shapes: Shape[] = []
  for (let tried = 0; tried < 200 && shapes.length < 7; tried++) {
    const scale = 0.35 + 0.35 * random()
    const [x, y] = [0, 1].map(() => 50 * scale + random() * (SIDE - 100 * scale)) as [number, number]
    const shape = { kind: one(kinds), colour: one(Object.keys(COLOURS) as Shape['colour'][]), x, y, scale }
    if (shapes.every((other) => Math.hypot(other.x - x, other.y - y) > 45 * (other.scale + scale))) shapes.push(shape)
  }
  const svg = drawing(SIDE, `hsl(${Math.floor(random() * 360)} 25% 85%)`, shapes)
  const jpeg = await sharp(Buffer.from(svg)).jpeg({ quality: 30 }).toBuffer()
  return {
    url: `data:image/jpeg;base64,${jpeg.toString('base64')}`,
    boxes: shapes.map(({ kind, x, y, scale }) => {
      const [left, top, right, bottom] = SIDES[kind].map((side) => side * scale) as [number, number, number, number]
      return { label: kind, left: x - left, top: y - top, right: x + right, bottom: y + bottom }
    }),
  }
}
