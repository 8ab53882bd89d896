import { createHash, subtle } from 'node:crypto'
import { getOrMake } from '../../../lib/get-or-make.ts'
import type { RgbImage } from '../../../media/pixels.ts'
import type { MediaPart } from '../../contract/parts.ts'

/**
 * Owns the content hashes of media parts. The prompt reader and the audio feature cache ask for them: a key identifies
 * the content within its organisation. Other threads hash pixels and samples ahead of time, because those of a video
 * take longer than a step.
 */
export class ContentKeys {
  readonly #keys = new WeakMap<MediaPart, string>()

  async prepare(part: MediaPart, organisation: string): Promise<void> {
    if (this.#keys.has(part)) return
    const hash = async (bytes: Uint8Array<ArrayBuffer>) => new Uint8Array(await subtle.digest('SHA-256', bytes))
    const digests = await Promise.all(bytesOf(part).map(hash))
    this.#keys.set(part, keyOf(part, organisation, digests))
  }

  /** The key of a part. Hashes it now, and blocks, unless it was prepared. */
  of(part: MediaPart, organisation: string): string {
    return getOrMake(this.#keys, part, () => {
      const digests = bytesOf(part).map((bytes) => createHash('sha256').update(bytes).digest())
      return keyOf(part, organisation, digests)
    })
  }
}

export function picturesOf(part: Exclude<MediaPart, { type: 'audio' }>): readonly RgbImage[] {
  return part.type === 'image' ? [part.image] : part.frames
}

function bytesOf(part: MediaPart): Uint8Array<ArrayBuffer>[] {
  const views = part.type === 'audio' ? [part.samples] : picturesOf(part).map(({ data }) => data)
  return views.map(
    ({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer as ArrayBuffer, byteOffset, byteLength),
  )
}

function keyOf(part: MediaPart, organisation: string, digests: readonly Uint8Array[]): string {
  const hash = createHash('sha256').update(`${organisation}\0${part.type}\0`)
  if (part.type !== 'audio') for (const { width, height } of picturesOf(part)) hash.update(`${width}x${height}\0`)
  for (const digest of digests) hash.update(digest)
  return hash.digest('base64')
}
