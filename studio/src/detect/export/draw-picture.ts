import { LabelPlaces } from '../../../../src/drawing/label-places.ts'
import { colourOfMark } from '../../marks/colours.ts'
import { boundsOf, inPixels } from '../../marks/geometry.ts'
import { captionOf, type Mark, type Role } from '../../marks/mark.ts'
import type { Attachment } from '../../media/attachment.ts'

/** As on the stage, in widths of a line. */
const DASHES: Readonly<Partial<Record<Role, readonly number[]>>> = {
  positive: [4, 2, 1, 2],
  negative: [3, 2],
  extra: [3, 2],
  missed: [1, 2],
}
const HALO = 'rgb(0 0 0 / 60%)'

/** A copy of a picture in its full size, upright, with marks drawn on it. @returns PNG */
export async function drawPicture({ blob, width, height }: Attachment, marks: readonly Mark[]): Promise<Blob> {
  const canvas = new OffscreenCanvas(width, height)
  const context = canvas.getContext('2d')!
  const picture = await createImageBitmap(blob)
  context.drawImage(picture, 0, 0, width, height)
  picture.close()
  // As large as `lookout detect` draws them.
  const scale = Math.sqrt(width * height)
  const line = Math.max(2, scale / 300)
  const letters = Math.max(12, scale / 42)
  for (const mark of marks) drawShape(context, mark, line, { width, height })
  context.font = `600 ${letters}px system-ui, sans-serif`
  context.textBaseline = 'middle'
  const places = new LabelPlaces({ width, height })
  for (const mark of marks) {
    if (mark.label === '') continue
    const { fill, text } = colourOfMark(mark)
    const caption = captionOf(mark)
    const padding = letters * 0.35
    const label = { width: context.measureText(caption).width + 2 * padding, height: letters + 2 * padding }
    const { x, y } = places.take(boundsOf(mark, { width, height }), label, mark.kind === 'point' ? line * 6 : line)
    context.fillStyle = fill
    context.beginPath()
    context.roundRect(x, y, label.width, label.height, padding / 2)
    context.fill()
    context.fillStyle = text
    context.fillText(caption, x + padding, y + label.height / 2)
  }
  return canvas.convertToBlob({ type: 'image/png' })
}

type Context = OffscreenCanvasRenderingContext2D
type Size = Pick<Attachment, 'width' | 'height'>

/** Each line has a dark one below it, so that it is seen on a ground of its own colour. */
function drawShape(context: Context, mark: Mark, line: number, size: Size): void {
  const { fill } = colourOfMark(mark)
  const points = inPixels(mark.points, size)
  const [first] = points
  if (mark.kind === 'point') {
    for (const [radius, colour] of [
      [2.6, HALO],
      [2.1, '#ffffff'],
      [1.5, fill],
    ] as const) {
      context.fillStyle = colour
      context.beginPath()
      context.arc(first!.x, first!.y, radius * line, 0, 2 * Math.PI)
      context.fill()
    }
    return
  }
  context.beginPath()
  if (mark.kind === 'polygon') {
    for (const { x, y } of points) context.lineTo(x, y)
    context.closePath()
  } else {
    const { left, top, right, bottom } = boundsOf(mark, size)
    // Half of a line along the edge of the picture would be cut off.
    const [x, y] = [Math.max(line / 2, left), Math.max(line / 2, top)]
    const [toX, toY] = [Math.min(size.width - line / 2, right), Math.min(size.height - line / 2, bottom)]
    context.rect(x, y, Math.max(0, toX - x), Math.max(0, toY - y))
  }
  context.setLineDash(((mark.role && DASHES[mark.role]) ?? []).map((part) => part * line))
  context.lineJoin = 'round'
  context.strokeStyle = HALO
  context.lineWidth = line * 1.7
  context.stroke()
  context.strokeStyle = fill
  context.lineWidth = line
  context.stroke()
}
