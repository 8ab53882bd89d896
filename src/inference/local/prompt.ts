import { createHash } from 'node:crypto'
import type { RgbImage } from '../../media/pixels.ts'
import type { ImagePart, PromptPart, TextPart } from '../engine.ts'
import type { EmbeddingCache } from './embedding-cache.ts'
import { FailureError } from './failure.ts'
import type { Model } from './native/model.ts'
import type { EncodableChunk, MediaChunks, Projector } from './native/projector.ts'
import type { EngineSettings } from './protocol.ts'

/** A tokenised prompt, or a part of one. May hold native memory until closed. */
export interface Prompt {
  readonly chunks: readonly PromptChunk[]
  /** All tokens, each one KV cell; `imageTokens` of them are from pictures. */
  readonly tokens: number
  readonly imageTokens: number
  close(): void
}

export type PromptChunk = TextChunk | ImageChunk

export interface TextChunk {
  readonly type: 'text'
  readonly tokens: Int32Array
}

export interface ImageChunk {
  readonly type: 'image'
  /** Knows sizes and positions, but has no pixels. */
  readonly encodable: EncodableChunk
  /** Names the picture by its content, within its organisation. */
  readonly key: string
  /** Output of the encoder, if the same picture went through it lately. */
  knownEmbeddings(): Float32Array | undefined
  /** Runs the encoder. Blocks. */
  encode(): Float32Array
}

interface ChunkSource {
  readonly part: ImagePart
  /** Among the chunks of this picture. */
  readonly index: number
  /** Names the picture by its content; computed when it is first asked for. */
  contentKey(): string
}

/** Turns the parts of prompts into tokens, and into pictures to encode. */
export class PromptReader {
  readonly #model: Model
  readonly #projector: Projector | null
  readonly #limits: EngineSettings['image']
  readonly #cache: EmbeddingCache

  constructor(model: Model, projector: Projector | null, limits: EngineSettings['image'], cache: EmbeddingCache) {
    this.#model = model
    this.#projector = projector
    this.#limits = limits
    this.#cache = cache
  }

  /**
   * @param organisation owner of the request: encoded pictures are shared within it only, since timing would tell.
   * @param param name of the input, for errors.
   */
  read(parts: readonly PromptPart[], organisation: string, param: string): Prompt {
    if (!parts.some(isImage)) return this.#readText(parts as readonly TextPart[])
    const projector = this.#imageProjector(param)
    const media = projector.tokenize(this.#checked(parts), false)
    const sources = this.#sources(projector, media, parts.filter(isImage), organisation)
    let image = 0
    const chunks = media.items.map((item): PromptChunk => {
      if (item.type === 'text') return item
      return this.#imageChunk(projector, item, sources[image++]!)
    })
    return { chunks, ...countTokens(chunks), close: () => media.close() }
  }

  /** Tokens that the parts cost. */
  count(parts: readonly PromptPart[], param: string): number {
    const prompt = this.read(parts, '', param)
    prompt.close()
    return prompt.tokens
  }

  #readText(parts: readonly TextPart[]): Prompt {
    const chunks = parts.map(
      (part): TextChunk => ({ type: 'text', tokens: this.#model.tokenize(part.text, part.trusted) }),
    )
    return { chunks, ...countTokens(chunks), close() {} }
  }

  /** Says for every picture chunk where it comes from: families that cut pictures into tiles make several of one. */
  #sources(
    projector: Projector,
    media: MediaChunks,
    images: readonly ImagePart[],
    organisation: string,
  ): ChunkSource[] {
    const whole = imageChunks(media).length === images.length
    return images.flatMap((part) => {
      let hash: string | null = null
      const contentKey = () => {
        hash ??= hashContent(part.image, organisation)
        return hash
      }
      if (whole) return { part, index: 0, contentKey }
      const tiles = projector.tokenize([part], false)
      const sources = imageChunks(tiles).map((_, index) => ({ part, index, contentKey }))
      tiles.close()
      return sources
    })
  }

  #imageChunk(projector: Projector, encodable: EncodableChunk, { part, index, contentKey }: ChunkSource): ImageChunk {
    const cache = this.#cache
    return {
      type: 'image',
      encodable,
      get key() {
        return `${index} ${contentKey()}`
      },
      knownEmbeddings() {
        return cache.get(this.key)
      },
      encode() {
        // The pixels are prepared only now, since as floats they take four times their size.
        const media = projector.tokenize([part], true)
        try {
          const embeddings = imageChunks(media)[index]!.encode()
          cache.set(this.key, embeddings)
          return embeddings
        } finally {
          media.close()
        }
      },
    }
  }

  #imageProjector(param: string): Projector {
    if (this.#projector?.supportsImages) return this.#projector
    throw new FailureError({ kind: 'invalid', message: 'This model does not take images.', param })
  }

  /** libmtmd would resize any other size by rules that are not ours, and coordinates would no longer fit. */
  #checked(parts: readonly PromptPart[]): readonly PromptPart[] {
    const limits = this.#limits
    if (limits === null) return parts
    for (const part of parts) if (isImage(part)) checkSize(part, limits)
    return parts
  }
}

function isImage(part: PromptPart): part is ImagePart {
  return part.type === 'image'
}

function imageChunks(media: MediaChunks): EncodableChunk[] {
  return media.items.filter((item) => item.type === 'image')
}

function checkSize({ image: { width, height, data } }: ImagePart, limits: NonNullable<EngineSettings['image']>): void {
  const side = limits.pixelsPerToken
  const tokens = (width / side) * (height / side)
  const fits = width % side === 0 && height % side === 0 && tokens >= limits.minTokens && tokens <= limits.maxTokens
  if (!fits || data.length !== width * height * 3) {
    throw new Error(`A picture of ${width}x${height} pixels (${data.length} bytes) was not prepared for this model.`)
  }
}

function countTokens(chunks: readonly PromptChunk[]): { tokens: number; imageTokens: number } {
  let text = 0
  let image = 0
  for (const chunk of chunks) {
    if (chunk.type === 'text') text += chunk.tokens.length
    else image += chunk.encodable.length
  }
  return { tokens: text + image, imageTokens: image }
}

function hashContent({ width, height, data }: RgbImage, organisation: string): string {
  return createHash('sha256').update(`${organisation}\0${width}x${height}\0`).update(data).digest('base64')
}
