import type { DecodedImage } from '../media/decoding/process/protocol.ts'
import type { Frame } from './coordinates/convention.ts'
import { type Drawing, planDrawings, toPng } from './drawing.ts'
import type { Subject } from './subject.ts'

/** An image that the model is asked about. */
export interface Exhibit {
  readonly drawing: Drawing
  readonly png: Buffer
  /** Prepared for the model. */
  readonly image: DecodedImage
  readonly frame: Frame
}

export async function drawExhibits(subject: Subject, count: number, seed?: number): Promise<Exhibit[]> {
  const { pixelsPerToken } = subject.card.image!
  const exhibits: Exhibit[] = []
  for (const drawing of planDrawings(count, seed)) {
    const png = await toPng(drawing)
    const image = await subject.prepare(png)
    const { width, height } = image.image
    const patches = { width: width / pixelsPerToken, height: height / pixelsPerToken }
    exhibits.push({ drawing, png, image, frame: { original: image.original, resized: { width, height }, patches } })
  }
  return exhibits
}

/** The name of the target in a question: `red square`. */
export function targetName({ drawing: { target } }: Exhibit): string {
  return `${target.colour} ${target.kind}`
}
