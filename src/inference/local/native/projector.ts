import koffi from 'koffi'
import type { MediaPart, PromptPart } from '../../contract/parts.ts'
import { inBackground } from './declare.ts'
import { Encoder } from './encoder.ts'
import type { Model } from './model.ts'
import type { Mtmd } from './mtmd.ts'
import type { NativeInputPart, Pointer } from './structs.ts'

export interface ProjectorOptions {
  readonly threads: number
  /** Limits of the size to which the library resizes images; by default, its own. */
  readonly image: { readonly minTokens: number; readonly maxTokens: number } | undefined
  /** The device that runs the encoders; by default, the CPU. */
  readonly device?: Pointer | null
}

const CHUNK_TEXT = 0
const CHUNK_IMAGE = 1
const CHUNK_AUDIO = 2
/** Sample rate of `AudioPart`. An encoder that needs another rate is not used. */
const SAMPLE_RATE = 16_000
const FLASH_ATTENTION_AUTO = -1

/** The media encoders of a model (its mmproj file). */
export class Projector {
  readonly #mtmd: Mtmd
  readonly #encoder: Encoder
  readonly #context: Pointer
  readonly #embeddingSize: number
  /** Pending calls on other threads. */
  readonly #background = new Set<Promise<MediaChunks>>()
  readonly supportsImages: boolean
  readonly supportsAudio: boolean
  /** Whether positions have the planes of M-RoPE: t, y, x, 0. */
  readonly usesMrope: boolean
  /** Whether the tokens of an image attend to each other, so that one call must decode them all. */
  readonly attendsWithinImages: boolean
  /** Whether a device runs the encoders, so that the CPU can prepare the next chunks meanwhile. */
  readonly usesDevice: boolean

  /** @throws Error when the file is not a projector of this model; the library's log says why. */
  constructor(mtmd: Mtmd, path: string, model: Model, options: ProjectorOptions) {
    this.usesDevice = options.device != null
    const params = {
      ...mtmd.context_params_default(),
      use_gpu: this.usesDevice,
      device: options.device ?? null,
      print_timings: false,
      n_threads: options.threads,
      flash_attn_type: FLASH_ATTENTION_AUTO,
      warmup: false,
      image_min_tokens: options.image?.minTokens ?? -1,
      image_max_tokens: options.image?.maxTokens ?? -1,
    }
    this.#mtmd = mtmd
    this.#encoder = new Encoder(mtmd, path, model, params, !this.usesDevice)
    const { context } = this.#encoder
    this.#context = context
    this.#embeddingSize = model.embeddingSize
    this.supportsImages = mtmd.support_vision(context)
    this.supportsAudio = mtmd.support_audio(context) && mtmd.get_audio_sample_rate(context) === SAMPLE_RATE
    this.usesMrope = mtmd.decode_use_mrope(context)
    this.attendsWithinImages = this.supportsImages && mtmd.decode_use_non_causal(context, null)
  }

  /**
   * Turns parts into the chunks that the model reads, including the tokens that its family puts around media.
   * @param withData false when the chunks will only be counted, not encoded.
   * @returns chunks that must be closed.
   */
  tokenize(parts: readonly PromptPart[], withData: boolean): MediaChunks {
    const native = parts.filter(isNotEmpty).flatMap((part) => this.#nativeParts(part, withData))
    const chunks = this.#mtmd.input_chunks_init()
    const code = this.#mtmd.tokenize_from_parts(this.#context, chunks, native, native.length, false)
    return this.#tokenised(chunks, native, code)
  }

  /** The same for media, with their data, on another thread. The library allows this at any time. */
  tokenizeInBackground(part: MediaPart): Promise<MediaChunks> {
    const call = this.#tokenizeInBackground(part).finally(() => this.#background.delete(call))
    this.#background.add(call)
    return call
  }

  async #tokenizeInBackground(part: MediaPart): Promise<MediaChunks> {
    const native = this.#nativeParts(part, true)
    const chunks = this.#mtmd.input_chunks_init()
    const tokenize = inBackground(this.#mtmd.tokenize_from_parts)
    return this.#tokenised(chunks, native, await tokenize(this.#context, chunks, native, native.length, false))
  }

  /** Frees what the library has read. @param code that it returned. */
  #tokenised(chunks: Pointer, native: readonly NativeInputPart[], code: number): MediaChunks {
    for (const { bitmap } of native) if (bitmap !== null) this.#mtmd.bitmap_free(bitmap)
    if (code === 0) return new MediaChunks(this.#mtmd, this.#encoder, chunks, this.#embeddingSize)
    this.#mtmd.input_chunks_free(chunks)
    throw new Error(`mtmd_tokenize_from_parts failed with code ${code}.`)
  }

  #nativeParts(part: PromptPart, withData: boolean): NativeInputPart[] {
    if (part.type !== 'text') return this.#bitmaps(part, withData).map((bitmap) => ({ text: null, bitmap }))
    const text = Buffer.from(part.text)
    const input = { text, text_len: text.length, add_special: false, parse_special: part.trusted }
    return [{ text: input, bitmap: null }]
  }

  #bitmaps(part: MediaPart, withData: boolean): Pointer[] {
    const mtmd = this.#mtmd
    if (part.type === 'audio') {
      return [mtmd.bitmap_init_from_audio(part.samples.length, withData ? part.samples : null)]
    }
    const images = part.type === 'image' ? [part.image] : part.frames
    const bitmaps = images.map(({ width, height, data }) => mtmd.bitmap_init(width, height, withData ? data : null))
    // The library merges adjacent mergeable bitmaps if the family does, so only frames of one part may be mergeable.
    if (bitmaps.length > 1) for (const bitmap of bitmaps) mtmd.bitmap_set_mergeable(bitmap, true)
    return bitmaps
  }

  /** Returns the buffer of a chunk's embeddings for reuse. */
  recycle(embeddings: Float32Array): void {
    this.#encoder.recycle(embeddings)
  }

  /** Waits for calls on other threads, which read the context and the model, and closes. Without any, it closes at once. */
  async close(): Promise<void> {
    if (this.#background.size > 0) await Promise.allSettled(this.#background)
    await this.#encoder.close()
  }
}

/** The library rejects a null pointer as text, and the address of an empty buffer is null. */
function isNotEmpty(part: PromptPart): boolean {
  return part.type !== 'text' || part.text !== ''
}

export type TokenisedChunk = { readonly type: 'text'; readonly tokens: Int32Array } | EncodableChunk

/** Chunks in prompt order. They are in native memory until closed. */
export class MediaChunks {
  readonly #mtmd: Mtmd
  readonly #handle: Pointer
  readonly items: readonly TokenisedChunk[]

  constructor(mtmd: Mtmd, encoder: Encoder, handle: Pointer, embeddingSize: number) {
    this.#mtmd = mtmd
    this.#handle = handle
    this.items = Array.from({ length: mtmd.input_chunks_size(handle) }, (_, index) => {
      const chunk = mtmd.input_chunks_get(handle, index)
      const type = mtmd.input_chunk_get_type(chunk)
      if (type === CHUNK_IMAGE || type === CHUNK_AUDIO) return new EncodableChunk(mtmd, encoder, chunk, embeddingSize)
      if (type !== CHUNK_TEXT) throw new Error(`The prompt contains a chunk of unknown type ${type}.`)
      const count: [number] = [0]
      const address = mtmd.input_chunk_get_tokens_text(chunk, count)
      return { type: 'text', tokens: Int32Array.from(new Int32Array(koffi.view(address, 4 * count[0]))) }
    })
  }

  /** Chunks that another thread encodes are freed once that has ended. */
  close(): void {
    const media = this.items.filter((item) => item.type === 'media')
    for (const item of media) item.abandon()
    const free = () => this.#mtmd.input_chunks_free(this.#handle)
    const busy = media.flatMap(({ encoding }) => encoding ?? [])
    if (busy.length === 0) free()
    else void Promise.allSettled(busy).then(free)
  }
}

/** A media item in a prompt, or a part of one: tokens whose embeddings an encoder computes. */
export class EncodableChunk {
  readonly type = 'media'
  readonly modality: 'image' | 'audio'
  readonly #mtmd: Mtmd
  readonly #encoder: Encoder
  readonly #handle: Pointer
  readonly #embeddingSize: number
  /** Number of tokens; each takes one KV cell. */
  readonly length: number
  /** How far the position advances: less than `length` under M-RoPE. */
  readonly positions: number
  readonly causal: boolean
  #encoding: Promise<Float32Array> | null = null

  constructor(mtmd: Mtmd, encoder: Encoder, handle: Pointer, embeddingSize: number) {
    this.#mtmd = mtmd
    this.#encoder = encoder
    this.#handle = handle
    this.#embeddingSize = embeddingSize
    this.modality = mtmd.input_chunk_get_type(handle) === CHUNK_AUDIO ? 'audio' : 'image'
    this.length = mtmd.input_chunk_get_n_tokens(handle)
    this.positions = mtmd.input_chunk_get_n_pos(handle)
    this.causal = !mtmd.decode_use_non_causal(encoder.context, handle)
  }

  /**
   * Starts to encode, or resumes. Abandons another chunk that is paused. Blocks.
   * @param ms after which the encoder pauses, if it can.
   * @returns the embeddings, `length` x embedding size floats; null while they are incomplete.
   */
  encode(ms: number): Float32Array | null {
    return this.#encoder.run(this.#handle, ms, this.length * this.#embeddingSize)
  }

  /** Encodes all of it on another thread, for encoders on a device. @returns the same. */
  async encodeAside(): Promise<Float32Array> {
    this.#encoding = this.#encoder.runAside(this.#handle, this.length * this.#embeddingSize)
    try {
      return await this.#encoding
    } finally {
      this.#encoding = null
    }
  }

  /** The call that encodes it on another thread, or null. */
  get encoding(): Promise<Float32Array> | null {
    return this.#encoding
  }

  /** Abandons a paused encoding. */
  abandon(): void {
    this.#encoder.abandon(this.#handle)
  }

  /** Decoder positions of tokens `from` to `to`, as planes t, y, x, 0 of `to - from` values each. */
  mropePositions(start: number, from: number, to: number): Int32Array {
    const count = to - from
    // Audio has no rows and columns: its positions count up as in text, in every plane but the last.
    if (this.modality === 'audio') {
      return Int32Array.from({ length: 4 * count }, (_, i) => (i < 3 * count ? start + from + (i % count) : 0))
    }
    const tokens = this.#mtmd.input_chunk_get_tokens_image(this.#handle)
    const planes = new Int32Array(4 * count)
    this.#mtmd.image_positions(tokens, start, from, to, planes)
    return planes
  }
}
