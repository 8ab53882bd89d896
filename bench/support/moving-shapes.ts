import sharp from 'sharp'
import { COLOURS, SHAPES } from '../../test/support/drawn-shapes.ts'
import type { ScoredBox } from '../../test/support/track-scores.ts'
import { Random } from '../simulate/random.ts'

interface ClipFrame {
  /** JPEG. */
  readonly picture: Buffer
  readonly seconds: number
  /** What is visible, in pixels; `id` is that of the thing in all frames. */
  readonly boxes: readonly ScoredBox[]
}

export interface MovingShapes {
  /** The two kinds of things. */
  readonly kinds: readonly string[]
  readonly frames: readonly ClipFrame[]
}

type Kind = keyof typeof SHAPES

interface Mover {
  readonly kind: Kind
  readonly colour: string
  readonly scale: number
  readonly x: number
  readonly y: number
  /** Pixels for each frame. */
  readonly dx: number
  readonly dy: number
  /** The first and the last frame in which it is not visible; null where it always is. */
  readonly away: readonly [number, number] | null
}

type Placed = Pick<Mover, 'kind' | 'colour' | 'scale' | 'x' | 'y'>

const SIZE = { width: 480, height: 360 }
const FRAMES = 20
const FRAMES_PER_SECOND = 4
const GROUNDS = ['#f4f1ea', '#dfe8ee', '#e8e0f0', '#e6efe0', '#fff7d6'] as const
const JPEG_QUALITY = 60
/** How far each shape reaches from its centre to the left, top, right and bottom, before it is scaled. */
const REACH: Readonly<Record<Kind, readonly [number, number, number, number]>> = {
  circle: [40, 40, 40, 40],
  square: [38, 38, 38, 38],
  triangle: [42, 42, 42, 36],
  diamond: [36, 46, 36, 46],
  cross: [42, 42, 42, 42],
  hexagon: [42, 37, 42, 37],
}
/** No shape reaches farther. */
const MARGIN = 46
const VANISH_SHARE = 0.6

/**
 * A clip of three to five shapes of two kinds. They move straight on and turn back at the edges; six in ten are not visible in two
 * to five of the frames.
 */
export async function movingShapes(seed: number): Promise<MovingShapes> {
  const random = new Random(seed)
  const kinds = drawn(Object.keys(SHAPES) as Kind[], 2, random)
  const ground = GROUNDS[random.below(GROUNDS.length)]!
  const movers = Array.from({ length: 3 + random.below(3) }, (_, index) => mover(kinds[index % 2]!, random))
  const frames: ClipFrame[] = []
  for (let frame = 0; frame < FRAMES; frame++) {
    const shown = movers.flatMap((one, id) => {
      if (one.away !== null && frame >= one.away[0] && frame <= one.away[1]) return []
      const x = reflected(one.x + one.dx * frame, MARGIN * one.scale, SIZE.width)
      return [{ id, ...one, x, y: reflected(one.y + one.dy * frame, MARGIN * one.scale, SIZE.height) }]
    })
    const boxes = shown.map((one) => ({ id: one.id, ...cornersOf(one) }))
    frames.push({ picture: await draw(shown, ground), seconds: frame / FRAMES_PER_SECOND, boxes })
  }
  return { kinds, frames }
}

function mover(kind: Kind, random: Random): Mover {
  const between = (least: number, most: number) => least + (most - least) * random.next()
  const scale = between(0.45, 1.1)
  const speed = between(4, 22)
  const angle = between(0, 2 * Math.PI)
  const first = 3 + random.below(FRAMES - 9)
  const away: Mover['away'] = random.next() < VANISH_SHARE ? [first, first + 1 + random.below(4)] : null
  return {
    kind,
    colour: drawn(Object.values(COLOURS), 1, random)[0]!,
    scale,
    x: between(MARGIN * scale, SIZE.width - MARGIN * scale),
    y: between(MARGIN * scale, SIZE.height - MARGIN * scale),
    dx: speed * Math.cos(angle),
    dy: speed * Math.sin(angle),
    away,
  }
}

function drawn<Item>(items: readonly Item[], count: number, random: Random): Item[] {
  const left = [...items]
  return Array.from({ length: count }, () => left.splice(random.below(left.length), 1)[0]!)
}

/** Where something is that turns back at `margin` from both ends. */
function reflected(place: number, margin: number, length: number): number {
  const room = length - 2 * margin
  const turned = (((place - margin) % (2 * room)) + 2 * room) % (2 * room)
  return margin + Math.min(turned, 2 * room - turned)
}

function cornersOf({ kind, scale, x, y }: Placed): Omit<ScoredBox, 'id'> {
  const [left, top, right, bottom] = REACH[kind]
  return { left: x - left * scale, top: y - top * scale, right: x + right * scale, bottom: y + bottom * scale }
}

function draw(things: readonly Placed[], ground: string): Promise<Buffer> {
  const shapes = things.map(
    ({ kind, colour, scale, x, y }) =>
      `<g transform="translate(${x} ${y}) scale(${scale})" fill="${colour}">${SHAPES[kind]}</g>`,
  )
  const { width, height } = SIZE
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"><rect width="100%" height="100%" fill="${ground}"/>${shapes.join('')}</svg>`
  return sharp(Buffer.from(svg)).jpeg({ quality: JPEG_QUALITY }).toBuffer()
}
