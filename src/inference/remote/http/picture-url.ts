import { getOrMake } from '../../../lib/get-or-make.ts'
import type { RgbImage } from '../../../media/pixels.ts'
import { encodePng } from '../../../media/png.ts'

/** A picture as a PNG in a data URL. Servers would decode other formats lossily, or not as RGB. */
export async function pictureUrl(image: RgbImage): Promise<string> {
  return `data:image/png;base64,${(await encodePng(image)).toString('base64')}`
}

/** Encodes each picture only once: the branches of a request share it, and further requests often contain it. */
export function pictureUrls(): typeof pictureUrl {
  const urls = new WeakMap<RgbImage, Promise<string>>()
  return (image) => getOrMake(urls, image, () => pictureUrl(image))
}
