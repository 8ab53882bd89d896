import type { RgbImage } from '../../../media/pixels.ts'
import { encodePng } from '../../../media/png.ts'

/** A picture as a PNG in a data URL. Servers would read any other format with losses, or as something else than RGB. */
export async function pictureUrl(image: RgbImage): Promise<string> {
  return `data:image/png;base64,${(await encodePng(image)).toString('base64')}`
}

/** Each picture is written once: the branches of a request share it, and it is often asked about again. */
export class PictureUrls {
  readonly #urls = new WeakMap<RgbImage, Promise<string>>()

  of(image: RgbImage): Promise<string> {
    const url = this.#urls.get(image) ?? pictureUrl(image)
    this.#urls.set(image, url)
    return url
  }
}
