import { createHash, subtle } from 'node:crypto'
import type { RgbImage } from '../../../media/pixels.ts'
import type { MediaPart } from '../../engine.ts'

/**
 * Names media by their content, within their organisation: what is kept of one is found by the name. Pixels and samples
 * are hashed on another thread before they are needed, because those of a video take longer than a step.
 */
export class ContentKeys {
  readonly #keys = new WeakMap<MediaPart, string>()

  async prepare(part: MediaPart, organisation: string): Promise<void> {
    if (this.#keys.has(part)) return
    const digests = await Promise.all(bytesOf(part).map(async (bytes) => subtle.digest('SHA-256', bytes)))
    this.#keys.set(
      part,
      keyOf(
        part,
        organisation,
        digests.map((digest) => new Uint8Array(digest)),
      ),
    )
  }

  /** Of a part that was prepared; of any other it is computed now. */
  of(part: MediaPart, organisation: string): string {
    let key = this.#keys.get(part)
    if (key === undefined) {
      const digests = bytesOf(part).map((bytes) => createHash('sha256').update(bytes).digest())
      key = keyOf(part, organisation, digests)
      this.#keys.set(part, key)
    }
    return key
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
