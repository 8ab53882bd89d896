import type { KvCache, KvSequence } from '../../cache/kv-cache.ts'
import type { Batch } from '../../native/batch.ts'
import type { EncodeTurn } from '../../tokens/encoder-turns.ts'
import type { MediaTokens, PromptChunk } from '../../tokens/prompt-tokens.ts'
import type { LoadedModel } from '../loaded-model.ts'

/** Counts the cells of sequences. */
export type Cells = Pick<KvCache, 'grow'>

/** What decoding embeddings needs from the model. */
export interface MediaMemory extends Pick<LoadedModel, 'usesMrope'> {
  readonly context: Pick<LoadedModel['context'], 'decodeEmbeddings'>
  readonly kv: Cells
  readonly model: Pick<LoadedModel['model'], 'embeddingSize'>
}

/**
 * Owns the progress of the prefill of a part of a prompt into its KV sequence. The batch builder asks for the next rows; the
 * model runner computes them.
 */
export class PrefillCursor {
  readonly kvSequence: KvSequence
  readonly #chunks: readonly PromptChunk[]
  #index = 0
  /** Within the chunk at `#index`. */
  #offset = 0
  /** Embeddings of the media at `#index`, once they are encoded. */
  #embeddings: Float32Array | null = null
  /** Encoding time so far of the media at `#index`, in ms. */
  #encodeMs = 0
  /** The error of encoding on another thread. */
  #failure: Error | null = null
  #remaining: number
  #lastTextStep = 0
  #lastMediaStep = 0

  /** @param skip number of cells that the KV sequence holds already. It never ends within an image. */
  constructor(kvSequence: KvSequence, chunks: readonly PromptChunk[], skip: number) {
    this.kvSequence = kvSequence
    this.#chunks = chunks
    this.#remaining = countCells(chunks)
    this.#advance(skip)
  }

  /** Cells still to be prefilled. */
  get remaining(): number {
    return this.#remaining
  }

  /** Cells of media still to be encoded. */
  get unencoded(): number {
    return countUnencoded(this.#chunks.slice(this.#embeddings === null ? this.#index : this.#index + 1))
  }

  get isDone(): boolean {
    return this.#remaining === 0
  }

  /** Number of the last step that computed text of it, or 0. */
  get lastTextStep(): number {
    return this.#lastTextStep
  }

  /** Number of the last step that encoded or computed media of it, or 0. */
  get lastMediaStep(): number {
    return this.#lastMediaStep
  }

  /** The next chunk if it is media, or null. */
  get media(): MediaTokens | null {
    const chunk = this.#chunks[this.#index]
    return chunk?.type === 'media' ? chunk : null
  }

  /** Rows of text before the next media, at most `limit`. */
  textRows(limit: number): number {
    let rows = -this.#offset
    for (let index = this.#index; rows < limit; index++) {
      const chunk = this.#chunks[index]
      if (chunk?.type !== 'text') break
      rows += chunk.tokens.length
    }
    return Math.max(0, Math.min(limit, rows))
  }

  /**
   * Adds rows of text to the batch, no more than `textRows`.
   * @param output whether each row's result is needed.
   */
  addText(batch: Batch, kv: Cells, rows: number, step: number, output = false): void {
    const { kvSequence } = this
    this.#lastTextStep = step
    for (let left = rows; left > 0; ) {
      const chunk = this.#chunks[this.#index]
      if (chunk?.type !== 'text') throw new Error('No text comes next.')
      const count = Math.min(left, chunk.tokens.length - this.#offset)
      for (let i = 0; i < count; i++) {
        batch.add(chunk.tokens[this.#offset + i]!, kvSequence.position + i, kvSequence.id, output)
      }
      kv.grow(kvSequence, count, count)
      left -= count
      this.#advance(count)
    }
  }

  /** Whether the next media must be encoded first, which needs no cells. */
  get needsEncoding(): boolean {
    if (this.#embeddings === null) this.#embeddings = this.media?.knownEmbeddings() ?? null
    return this.media !== null && this.#embeddings === null
  }

  /** Whether the encoder has begun the next media. */
  get isEncoding(): boolean {
    return this.#encodeMs > 0
  }

  /** Whether encoding the next media has failed. */
  get hasFailed(): boolean {
    return this.#failure !== null
  }

  /**
   * The media that another thread should encode next: the next ones, even after text; or, if these are encoded, the
   * ones after them. Null if that is done or has failed.
   */
  get toEncode(): MediaTokens | null {
    if (this.#failure !== null) return null
    let known = 0
    for (let index = this.#index; index < this.#chunks.length && known < 2; index++) {
      const chunk = this.#chunks[index]!
      if (chunk.type !== 'media') continue
      const isHere = index === this.#index && this.#embeddings !== null
      if (!isHere && chunk.knownEmbeddings() === undefined) return chunk
      known++
    }
    return null
  }

  /** Encodes `toEncode` on another thread. `encodeMedia` throws its error. */
  async encodeAside(step: number): Promise<void> {
    this.#lastMediaStep = step
    try {
      await this.toEncode?.encodeAside()
    } catch (error) {
      this.#failure = error as Error
      throw error
    }
  }

  /** Runs the encoder for a turn. Blocks. @returns duration of all turns, in ms; null if more are needed. */
  encodeMedia(step: number, turn: EncodeTurn): number | null {
    this.#lastMediaStep = step
    if (this.#failure !== null) throw this.#failure
    const started = performance.now()
    this.#embeddings = this.media?.encode(turn) ?? null
    this.#encodeMs += performance.now() - started
    if (this.#embeddings === null) return null
    const ms = this.#encodeMs
    this.#encodeMs = 0
    return ms
  }

  /**
   * Rows of encoded media for the next call: all of them if their tokens attend to each other.
   * @param limit wanted rows.
   * @param most maximum rows of one call.
   */
  mediaRows(limit: number, most: number): number {
    const chunk = this.media
    if (chunk === null) return 0
    const { length, causal } = chunk.encodable
    if (causal) return Math.min(length - this.#offset, limit)
    // Admission has checked it.
    if (length > most) throw new Error(`An image of ${length} tokens is larger than a batch of ${most}.`)
    return length
  }

  /** Decodes `rows` embeddings of the next media. Blocks. */
  decodeMedia({ context, kv, model, usesMrope }: MediaMemory, rows: number, step: number): void {
    const embeddings = this.#embeddings
    const chunk = this.media
    if (chunk === null || embeddings === null) throw new Error('No encoded media come next.')
    this.#lastMediaStep = step
    const { kvSequence } = this
    const { encodable } = chunk
    const from = this.#offset
    const to = from + rows
    const positions = usesMrope
      ? encodable.mropePositions(kvSequence.position, from, to)
      : Int32Array.from({ length: rows }, (_, i) => kvSequence.position + from + i)
    const values = embeddings.subarray(from * model.embeddingSize, to * model.embeddingSize)
    kv.grow(kvSequence, rows, 0)
    context.decodeEmbeddings(values, positions, rows, kvSequence.id, encodable.causal)
    // The position stays at the start of the image until all of it is decoded.
    if (to === encodable.length) {
      kv.grow(kvSequence, 0, encodable.positions)
      this.#embeddings = null
    }
    this.#advance(rows)
  }

  #advance(cells: number): void {
    this.#remaining -= cells
    this.#offset += cells
    for (let chunk = this.#chunks[this.#index]; chunk !== undefined; chunk = this.#chunks[this.#index]) {
      const length = chunkLength(chunk)
      if (this.#offset < length) return
      this.#offset -= length
      this.#index++
    }
  }
}

function chunkLength(chunk: PromptChunk): number {
  return chunk.type === 'media' ? chunk.encodable.length : chunk.tokens.length
}

export function countCells(chunks: readonly PromptChunk[]): number {
  return chunks.reduce((sum, chunk) => sum + chunkLength(chunk), 0)
}

/** Cells of media whose embeddings are not cached. */
export function countUnencoded(chunks: readonly PromptChunk[]): number {
  return countCells(chunks.filter((chunk) => chunk.type === 'media' && chunk.knownEmbeddings() === undefined))
}
