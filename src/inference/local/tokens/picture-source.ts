import type { FramesPart, ImagePart } from '../../engine.ts'
import type { EncodableChunk, MediaChunks, Projector } from '../native/projector.ts'
import type { ContentKeys } from './content-keys.ts'

export type PicturePart = ImagePart | FramesPart

/**
 * The pieces into which the library has cut an image, with their pixels. Cutting takes a share of the time of encoding one
 * piece, so they are kept until the last one is encoded; those of one image only, because they take several times the
 * memory of its pixels.
 */
export class CutImage {
  #part: PicturePart | null = null
  #chunks: MediaChunks | null = null

  /** @param cut called unless the part was the last one. */
  chunksOf(part: PicturePart, cut: () => MediaChunks): MediaChunks {
    if (this.#part === part && this.#chunks !== null) return this.#chunks
    this.#release()
    this.#chunks = cut()
    this.#part = part
    return this.#chunks
  }

  /** Frees the pieces of a part, if they are kept. */
  release(part: PicturePart): void {
    if (this.#part === part) this.#release()
  }

  close(): void {
    this.#release()
  }

  #release(): void {
    this.#chunks?.close()
    this.#chunks = null
    this.#part = null
  }
}

/** What the pictures of prompts share. */
export interface PictureOwner {
  readonly projector: Projector
  readonly keys: ContentKeys
  readonly cut: CutImage
}

/** An image, or frames, in a prompt: one or several chunks. */
export class PictureSource {
  readonly #owner: PictureOwner
  readonly #part: PicturePart
  readonly #organisation: string

  constructor(owner: PictureOwner, part: PicturePart, organisation: string) {
    this.#owner = owner
    this.#part = part
    this.#organisation = organisation
  }

  get contentKey(): string {
    return this.#owner.keys.of(this.#part, this.#organisation)
  }

  countChunks(): number {
    const chunks = this.#owner.projector.tokenize([this.#part], false)
    const count = mediaChunks(chunks).length
    chunks.close()
    return count
  }

  /**
   * Begins to encode one of the chunks, or goes on with it. Blocks.
   * @param ms after which the encoder pauses, if it can.
   * @returns null while it is paused.
   */
  encode(index: number, ms: number): Float32Array | null {
    const { cut, projector } = this.#owner
    let isNeeded = false
    try {
      // The pixels are converted only now: as floats they take four times the memory.
      const pieces = mediaChunks(cut.chunksOf(this.#part, () => projector.tokenize([this.#part], true)))
      const embeddings = pieces[index]!.encode(ms)
      isNeeded = embeddings === null || index < pieces.length - 1
      return embeddings
    } finally {
      if (!isNeeded) this.close()
    }
  }

  /** No more of it is encoded. */
  close(): void {
    this.#owner.cut.release(this.#part)
  }
}

export function mediaChunks(chunks: MediaChunks): EncodableChunk[] {
  return chunks.items.filter((item) => item.type === 'media')
}
