import type { Attachment } from '../../media/attachment.ts'
import type { Spot } from './spot.ts'

type Place = Pick<Spot, 'left' | 'top' | 'right' | 'bottom'>

/** How far a side moves at most: a part of the box, and some pixels for small boxes. */
const REACH_SHARE = 0.15
const REACH_PX = 4
/** A change of colour, of 255 in each channel, that is no edge. */
const FAINT = 8
const CHANNELS = 4

/** Moves each side of a box to the clearest edge near it in the picture, and leaves it where there is none. */
export async function fitToEdges({ blob, width, height }: Attachment, box: Place): Promise<Place> {
  const [boxWidth, boxHeight] = [box.right - box.left, box.bottom - box.top]
  const reachX = Math.round(boxWidth * REACH_SHARE) + REACH_PX
  const reachY = Math.round(boxHeight * REACH_SHARE) + REACH_PX
  // How many pixels on either side are compared: a large object has softer edges.
  const depth = Math.max(1, Math.round(Math.min(boxWidth, boxHeight) / 100))
  const [x0, y0] = [Math.max(0, box.left - reachX - depth), Math.max(0, box.top - reachY - depth)]
  const columns = Math.min(width, box.right + reachX + depth) - x0
  const rows = Math.min(height, box.bottom + reachY + depth) - y0
  const bitmap = await createImageBitmap(blob)
  const canvas = new OffscreenCanvas(columns, rows).getContext('2d')!
  canvas.drawImage(bitmap, -x0, -y0)
  bitmap.close()
  const { data } = canvas.getImageData(0, 0, columns, rows)

  /**
   * How much the colour changes across a line, from the pixels before it to those after.
   * @param step from a pixel to the next one across the line. @param along likewise, on the line
   */
  const changeAt = (line: number, [from, to]: readonly [number, number], step: number, along: number) => {
    let [sum, count] = [0, 0]
    for (let place = from; place < to; place += depth) {
      for (let away = 0; away < depth; away++) {
        const after = (line + away) * step + place * along
        const before = (line - 1 - away) * step + place * along
        for (let channel = 0; channel < 3; channel++) sum += Math.abs(data[after + channel]! - data[before + channel]!)
        count += 3
      }
    }
    return count === 0 ? 0 : sum / count
  }
  const moved = (side: number, length: number, reach: number, change: (line: number) => number) => {
    // Cut off by the picture's own edge.
    if (side === 0 || side === length) return side
    let [best, most] = [side, FAINT]
    for (let line = Math.max(depth, side - reach); line <= Math.min(length - depth, side + reach); line++) {
      const value = change(line) * (1 - Math.abs(line - side) / (2 * reach))
      if (value > most) [best, most] = [line, value]
    }
    return best
  }
  // The middle of a side is on the object even where its ends are not yet.
  const middle = (from: number, to: number) => {
    const margin = Math.floor((to - from) * 0.2)
    return [from + margin, to - margin] as const
  }
  const start = { left: box.left - x0, top: box.top - y0, right: box.right - x0, bottom: box.bottom - y0 }
  let { left, top, right, bottom } = start
  for (let round = 0; round < 2; round++) {
    const onColumn = (line: number) => changeAt(line, middle(top, bottom), CHANNELS, CHANNELS * columns)
    left = moved(start.left, columns, reachX, onColumn)
    right = moved(start.right, columns, reachX, onColumn)
    const onRow = (line: number) => changeAt(line, middle(left, right), CHANNELS * columns, CHANNELS)
    top = moved(start.top, rows, reachY, onRow)
    bottom = moved(start.bottom, rows, reachY, onRow)
  }
  if (left >= right || top >= bottom) return box
  return { left: left + x0, top: top + y0, right: right + x0, bottom: bottom + y0 }
}
