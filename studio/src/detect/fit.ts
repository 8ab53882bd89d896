import type { Attachment } from '../media/attachment.ts'
import type { Spot } from './spot.ts'

type Place = Pick<Spot, 'left' | 'top' | 'right' | 'bottom'>

/** How far a side moves at most: a part of the box, and some pixels for small boxes. */
const REACH_SHARE = 0.15
const REACH_PX = 4
/** A change of colour, of 255 in each channel, that is no edge. */
const FAINT = 8

/** Moves each side of a box to the clearest edge near it in the picture, and leaves it where there is none. */
export async function fitToEdges({ blob, width, height }: Attachment, box: Place): Promise<Place> {
  const reachX = Math.round((box.right - box.left) * REACH_SHARE) + REACH_PX
  const reachY = Math.round((box.bottom - box.top) * REACH_SHARE) + REACH_PX
  const [x0, y0] = [Math.max(0, box.left - reachX - 1), Math.max(0, box.top - reachY - 1)]
  const [x1, y1] = [Math.min(width, box.right + reachX + 1), Math.min(height, box.bottom + reachY + 1)]
  const [columns, rows] = [x1 - x0, y1 - y0]
  const bitmap = await createImageBitmap(blob)
  const canvas = new OffscreenCanvas(columns, rows).getContext('2d')!
  canvas.drawImage(bitmap, -x0, -y0)
  bitmap.close()
  const { data } = canvas.getImageData(0, 0, columns, rows)

  /** How much the colour changes along a line of the picture, from the pixels before it to those after. */
  const edge = (at: number, from: number, to: number, step: number, along: number) => {
    let sum = 0
    for (let place = from; place < to; place++) {
      const pixel = at * step + place * along
      for (let channel = 0; channel < 3; channel++)
        sum += Math.abs(data[pixel + channel]! - data[pixel - step + channel]!)
    }
    return sum / (3 * (to - from))
  }
  const moved = (side: number, length: number, reach: number, score: (at: number) => number) => {
    // Cut off by the picture's own edge.
    if (side === 0 || side === length) return side
    let [best, most] = [side, FAINT]
    for (let at = Math.max(1, side - reach); at <= Math.min(length - 1, side + reach); at++) {
      const value = score(at) * (1 - Math.abs(at - side) / (2 * reach))
      if (value > most) [best, most] = [at, value]
    }
    return best
  }
  let [left, top, right, bottom] = [box.left - x0, box.top - y0, box.right - x0, box.bottom - y0]
  const start = { left, top, right, bottom }
  // The middle of a side belongs to the object even where its ends do not yet.
  const middle = (from: number, to: number) => {
    const margin = Math.floor((to - from) * 0.2)
    return [from + margin, to - margin] as const
  }
  const bytes = 4
  for (let round = 0; round < 2; round++) {
    const onColumn = (at: number) => edge(at, ...middle(top, bottom), bytes, bytes * columns)
    left = moved(start.left, columns, reachX, onColumn)
    right = moved(start.right, columns, reachX, onColumn)
    const onRow = (at: number) => edge(at, ...middle(left, right), bytes * columns, bytes)
    top = moved(start.top, rows, reachY, onRow)
    bottom = moved(start.bottom, rows, reachY, onRow)
  }
  return left < right && top < bottom ? { left: left + x0, top: top + y0, right: right + x0, bottom: bottom + y0 } : box
}
