import type { FramesPart, ImagePart } from '../../contract/parts.ts'
import type { EncodableChunk, MediaChunks, Projector } from '../native/projector.ts'
import { type ContentKeys, picturesOf } from './content-keys.ts'

export type PicturePart = ImagePart | FramesPart

/** Maximum bytes of prepared pictures that wait for the encoder: about five of 1,024 tokens. */
const AHEAD_BYTES = 64 * 2 ** 20
/** Three channels as floats. */
const BYTES_PER_PIXEL = 12
/**
 * Time after which an unclaimed picture is freed, in ms: a prompt is read right after its pictures are prepared, unless the
 * request is rejected.
 */
const CLAIM_MS = 10_000

interface Ahead {
  readonly chunks: MediaChunks
  readonly bytes: number
  /** Null once a prompt has claimed it. */
  timer: NodeJS.Timeout | null
}

/**
 * Pictures in the form that the encoder takes: chunks, cut by the library, with their pixels as floats. If a device computes,
 * other threads prepare pictures ahead, up to `AHEAD_BYTES`. Others are prepared when the encoder reaches them. Cutting takes
 * a considerable fraction of the time to encode one chunk, so a picture's chunks are kept until the last one is encoded. Of
 * pictures that were not prepared ahead, only one is kept, because chunks take several times the memory of the pixels.
 */
export class PreparedPictures {
  readonly #projector: Projector
  readonly #ahead = new Map<PicturePart, Ahead>()
  /** Pictures that other threads are preparing. */
  readonly #begun = new Set<PicturePart>()
  #aheadBytes = 0
  #isClosed = false
  #part: PicturePart | null = null
  #chunks: MediaChunks | null = null

  constructor(projector: Projector) {
    this.#projector = projector
  }

  /**
   * Prepares a picture on another thread, if there is room. It is freed after `CLAIM_MS` unless a prompt claims it.
   * @param signal aborts its request.
   */
  async prepare(part: PicturePart, signal: AbortSignal): Promise<void> {
    const bytes = picturesOf(part).reduce((sum, { width, height }) => sum + width * height * BYTES_PER_PIXEL, 0)
    // A request may contain the same picture twice.
    const isKnown = this.#ahead.has(part) || this.#begun.has(part)
    if (isKnown || this.#aheadBytes + bytes > AHEAD_BYTES) return
    this.#aheadBytes += bytes
    this.#begun.add(part)
    let chunks: MediaChunks
    try {
      chunks = await this.#projector.tokenizeInBackground(part)
    } catch (error) {
      this.#aheadBytes -= bytes
      throw error
    } finally {
      this.#begun.delete(part)
    }
    this.#ahead.set(part, { chunks, bytes, timer: setTimeout(() => this.release(part), CLAIM_MS).unref() })
    if (signal.aborted || this.#isClosed) this.release(part)
  }

  /** Hands the picture over to a prompt, which will release it. */
  claim(part: PicturePart): void {
    const ahead = this.#ahead.get(part)
    if (ahead === undefined || ahead.timer === null) return
    clearTimeout(ahead.timer)
    ahead.timer = null
  }

  chunksOf(part: PicturePart): MediaChunks {
    const ahead = this.#ahead.get(part)
    if (ahead !== undefined) return ahead.chunks
    if (this.#part === part && this.#chunks !== null) return this.#chunks
    this.#releaseLast()
    this.#chunks = this.#projector.tokenize([part], true)
    this.#part = part
    return this.#chunks
  }

  /** Frees the chunks of a part, if they are kept. */
  release(part: PicturePart): void {
    if (this.#part === part) this.#releaseLast()
    const ahead = this.#ahead.get(part)
    if (ahead === undefined) return
    if (ahead.timer !== null) clearTimeout(ahead.timer)
    this.#ahead.delete(part)
    this.#aheadBytes -= ahead.bytes
    ahead.chunks.close()
  }

  close(): void {
    this.#isClosed = true
    this.#releaseLast()
    for (const part of this.#ahead.keys()) this.release(part)
  }

  #releaseLast(): void {
    this.#chunks?.close()
    this.#chunks = null
    this.#part = null
  }
}

/** Resources that all pictures share. */
export interface PictureOwner {
  readonly projector: Projector
  readonly keys: ContentKeys
  readonly pictures: PreparedPictures
}

/** An image, or frames, in a prompt: one or several chunks. */
export class PictureSource {
  readonly #owner: PictureOwner
  readonly #part: PicturePart
  readonly #organisation: string
  /** Number of chunks into which it is cut. */
  #chunks = 1

  constructor(owner: PictureOwner, part: PicturePart, organisation: string) {
    this.#owner = owner
    this.#part = part
    this.#organisation = organisation
    owner.pictures.claim(part)
  }

  get contentKey(): string {
    return this.#owner.keys.of(this.#part, this.#organisation)
  }

  countChunks(): number {
    const chunks = this.#owner.projector.tokenize([this.#part], false)
    this.#chunks = mediaChunks(chunks).length
    chunks.close()
    return this.#chunks
  }

  /**
   * Starts to encode one of the chunks, or resumes it. Blocks.
   * @param ms after which the encoder pauses, if it can.
   * @returns null while it is paused.
   */
  encode(index: number, ms: number): Float32Array | null {
    let isNeeded = false
    try {
      const chunks = mediaChunks(this.#owner.pictures.chunksOf(this.#part))
      const embeddings = chunks[index]!.encode(ms)
      isNeeded = embeddings === null || index < chunks.length - 1
      return embeddings
    } finally {
      if (!isNeeded) this.close()
    }
  }

  /** Encodes one of the chunks on another thread, for encoders on a device. */
  async encodeAside(index: number): Promise<Float32Array> {
    let isNeeded = false
    try {
      const chunks = mediaChunks(this.#owner.pictures.chunksOf(this.#part))
      const embeddings = await chunks[index]!.encodeAside()
      isNeeded = index < chunks.length - 1
      return embeddings
    } finally {
      if (!isNeeded) this.close()
    }
  }

  /** Records that another prompt has encoded one of the chunks. They are encoded in order. */
  know(index: number): void {
    if (index === this.#chunks - 1) this.close()
  }

  /** Ends its encoding. */
  close(): void {
    this.#owner.pictures.release(this.#part)
  }
}

export function mediaChunks(chunks: MediaChunks): EncodableChunk[] {
  return chunks.items.filter((item) => item.type === 'media')
}
