import sharp from 'sharp'
import { isPicture, MediaError } from '../asking/media.ts'
import type { Source } from './allowed-media.ts'

/** Agents show pictures to models, which use no more pixels than this. */
const LONGEST_SIDE = 1568
/** Hosts limit what they show: Claude to 5 MB of base64. */
const MOST_BYTES = 3_750_000
/** Formats that models accept. */
const TAKEN = ['image/png', 'image/jpeg', 'image/webp']

/** A picture as a JPEG that is small enough for an agent's model, and upright. */
export function shrink(picture: Uint8Array): Promise<Buffer> {
  return sharp(picture, { failOn: 'error' })
    .autoOrient()
    .resize({ width: LONGEST_SIDE, height: LONGEST_SIDE, fit: 'inside', withoutEnlargement: true })
    .flatten({ background: '#ffffff' })
    .jpeg({ quality: 85 })
    .toBuffer()
}

/** The picture unchanged if an agent's model accepts it, otherwise shrunk. @throws MediaError for another medium. */
export async function forAgents(
  name: string,
  source: Source,
): Promise<{ readonly bytes: Uint8Array; readonly type: string }> {
  if (source.type === 'address') throw new MediaError(`${name} is not a file`)
  const { medium } = source
  if (!isPicture(medium)) throw new MediaError(`${name} is ${medium.type}, not a picture: the tool look takes it`)
  const { type, size, byteLength } = medium
  const bytes = await medium.bytes()
  const fits = Math.max(size.width, size.height) <= LONGEST_SIDE && byteLength <= MOST_BYTES
  if (fits && TAKEN.includes(type)) return { bytes, type }
  const shown = medium.shown().then(shrink)
  const jpeg = await shown.catch(() => {
    throw new MediaError(`${name} is damaged`)
  })
  return { bytes: jpeg, type: 'image/jpeg' }
}
