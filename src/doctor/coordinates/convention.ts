import type { Size } from '../../media/pixels.ts'
import type { NumberGroup } from './number-groups.ts'

/** Units of coordinates. */
const SPACES = ['0..1000', 'resized pixels', 'original pixels', '0..1', '0..100', '0..999', '1024 bins'] as const
type Space = (typeof SPACES)[number]

/** Meanings of four numbers: two corners, the centre and the size, or the first corner and the size. */
const FORMS = ['corners', 'centre and size', 'corner and size'] as const
type Form = (typeof FORMS)[number]

/** How a model writes places. */
export interface Convention {
  readonly space: Space
  readonly order: 'x first' | 'y first'
  readonly form: Form
}

/** All conventions, the most usual first. */
export const CONVENTIONS: readonly Convention[] = FORMS.flatMap((form) =>
  (['x first', 'y first'] as const).flatMap((order) => SPACES.map((space) => ({ space, order, form }))),
)

/** The sizes of an image that was asked about. */
export interface Frame {
  readonly original: Size
  /** As the model sees it. */
  readonly resized: Size
  /** Columns and rows of its tokens: the unit of errors. */
  readonly patches: Size
}

/** A point as shares of the image's sides, 0 to 1. */
export interface Point {
  readonly x: number
  readonly y: number
}

/** A box as shares of the image's sides, its corners in order; a point when they are equal. */
export interface Box {
  readonly from: Point
  readonly to: Point
}

/** The place of the numbers on the image if they follow the convention. */
export function placeOn(numbers: NumberGroup, { space, order, form }: Convention, frame: Frame): Box {
  const { width, height } = sidesOf(space, frame)
  const pair = (first: number, second: number): Point =>
    order === 'x first' ? { x: first / width, y: second / height } : { x: second / width, y: first / height }
  const a = pair(numbers[0], numbers[1])
  if (numbers.length === 2) return { from: a, to: a }
  const b = pair(numbers[2], numbers[3])
  switch (form) {
    case 'corners':
      return {
        from: { x: Math.min(a.x, b.x), y: Math.min(a.y, b.y) },
        to: { x: Math.max(a.x, b.x), y: Math.max(a.y, b.y) },
      }
    case 'centre and size':
      return { from: { x: a.x - b.x / 2, y: a.y - b.y / 2 }, to: { x: a.x + b.x / 2, y: a.y + b.y / 2 } }
    case 'corner and size':
      return { from: a, to: { x: a.x + b.x, y: a.y + b.y } }
  }
}

/** The numbers that stand for a box in a convention; for its centre, when `kind` is a point. Not rounded. */
export function numbersOf(box: Box, kind: 'box' | 'point', convention: Convention, frame: Frame): NumberGroup {
  const { width, height } = sidesOf(convention.space, frame)
  const pair = ({ x, y }: Point): [number, number] =>
    convention.order === 'x first' ? [x * width, y * height] : [y * height, x * width]
  const size = { x: box.to.x - box.from.x, y: box.to.y - box.from.y }
  if (kind === 'point') return pair(centreOf(box))
  switch (convention.form) {
    case 'corners':
      return [...pair(box.from), ...pair(box.to)]
    case 'centre and size':
      return [...pair(centreOf(box)), ...pair(size)]
    case 'corner and size':
      return [...pair(box.from), ...pair(size)]
  }
}

export function centreOf({ from, to }: Box): Point {
  return { x: (from.x + to.x) / 2, y: (from.y + to.y) / 2 }
}

export function describeConvention({ space, order, form }: Convention): string {
  return `${space}, ${order}${form === 'corners' ? '' : `, ${form}`}`
}

/** The coordinates of the image's right and bottom edges. */
function sidesOf(space: Space, { original, resized }: Frame): Size {
  switch (space) {
    case 'original pixels':
      return original
    case 'resized pixels':
      return resized
    default:
      return SQUARES[space]
  }
}

const square = (side: number): Size => ({ width: side, height: side })
const SQUARES = {
  '0..1': square(1),
  '0..100': square(100),
  '0..999': square(999),
  '0..1000': square(1000),
  '1024 bins': square(1024),
} as const
