import type { KvCache, KvSequence } from '../cache/kv-cache.ts'
import type { Context } from '../native/context.ts'
import type { MediaTokens, PromptChunk } from '../tokens/prompt-tokens.ts'
import type { LoadedModel } from './loaded-model.ts'

/** A part of a prompt on its way into a sequence, some rows at a time. */
export class PrefillCursor {
  readonly sequence: KvSequence
  readonly #chunks: readonly PromptChunk[]
  #index = 0
  /** Within the chunk at `#index`. */
  #offset = 0
  /** Of the picture at `#index`, once they are there. */
  #embeddings: Float32Array | null = null
  /** Cells still to be filled. */
  remaining: number
  /** Number of the step that last worked on a picture of this feed. */
  lastMediaStep = 0
  /** Number of the step that last computed text of it. */
  lastTextStep = 0

  /** @param skip cells at the start that the sequence holds already; never a part of a picture. */
  constructor(sequence: KvSequence, chunks: readonly PromptChunk[], skip: number) {
    this.sequence = sequence
    this.#chunks = chunks
    this.remaining = countCells(chunks)
    this.#advance(skip)
  }

  get isDone(): boolean {
    return this.remaining === 0
  }

  /** The picture or sound that comes next, or null when text does. */
  get media(): MediaTokens | null {
    const chunk = this.#chunks[this.#index]
    return chunk?.type === 'media' ? chunk : null
  }

  /** Adds text up to the next picture. @returns rows added, at most `limit`. */
  addText({ batch }: Context, kv: KvCache, limit: number): number {
    const { sequence } = this
    let added = 0
    for (let chunk = this.#chunks[this.#index]; chunk?.type === 'text' && added < limit; ) {
      const count = Math.min(limit - added, chunk.tokens.length - this.#offset)
      for (let i = 0; i < count; i++) {
        batch.add(chunk.tokens[this.#offset + i]!, sequence.position + i, sequence.id, false)
      }
      kv.grow(sequence, count, count)
      added += count
      this.#advance(count)
      chunk = this.#chunks[this.#index]
    }
    return added
  }

  /** Whether the next call of `stepMedia` runs the encoder, which needs no cells. */
  get needsEncoding(): boolean {
    if (this.#embeddings === null) this.#embeddings = this.media?.knownEmbeddings() ?? null
    return this.media !== null && this.#embeddings === null
  }

  encodeMedia(): void {
    this.#embeddings = this.media?.encode() ?? null
  }

  /**
   * Rows that the next call for the encoded picture takes: all, where its tokens see each other.
   * @param limit what is wanted; `most` is what one call can take.
   */
  mediaRows(limit: number, most: number): number {
    const chunk = this.media
    if (chunk === null) return 0
    const { length, causal } = chunk.encodable
    if (causal) return Math.min(length - this.#offset, limit)
    // Admission has seen to it.
    if (length > most) throw new Error(`A picture of ${length} tokens is larger than a batch of ${most}.`)
    return length
  }

  /** Decodes some embeddings of the picture that comes next and is encoded. Blocks. */
  decodeMedia({ context, kv, model, usesMrope }: LoadedModel, rows: number): void {
    const embeddings = this.#embeddings
    const chunk = this.media
    if (chunk === null || embeddings === null) throw new Error('No encoded picture comes next.')
    const { sequence } = this
    const { encodable } = chunk
    const from = this.#offset
    const to = from + rows
    const positions = usesMrope
      ? encodable.mropePositions(sequence.position, from, to)
      : Int32Array.from({ length: rows }, (_, i) => sequence.position + from + i)
    const values = embeddings.slice(from * model.embeddingSize, to * model.embeddingSize)
    kv.grow(sequence, rows, 0)
    context.decodeEmbeddings(values, positions, rows, sequence.id, encodable.causal)
    // Its positions count from the picture's start until all of it is there.
    if (to === encodable.length) {
      kv.grow(sequence, 0, encodable.positions)
      this.#embeddings = null
    }
    this.#advance(rows)
  }

  #advance(cells: number): void {
    this.remaining -= cells
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
