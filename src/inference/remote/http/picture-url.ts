import type { RgbImage } from '../../../media/pixels.ts'
import { encodePng } from '../../../media/png.ts'

/** A picture as a PNG in a data URL. Servers would read any other format with losses, or as something else than RGB. */
export async function pictureUrl(image: RgbImage): Promise<string> {
  return `data:image/png;base64,${(await encodePng(image)).toString('base64')}`
}
