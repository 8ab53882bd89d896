import type { PromptChunk } from '../tokens/prompt-tokens.ts'
import type { Cut } from './kv-cache.ts'

/** An image, a tile of one, or a stretch of audio within a key. */
interface KeyMedia {
  /** First of its cells. */
  readonly at: number
  readonly cells: number
  readonly positions: number
  /** Same key, same embeddings. */
  readonly key: string
}

/** Stands in `tokens` for every cell of an image or of audio. */
const MEDIA_CELL = -1

/**
 * What a sequence consists of, cell by cell: text by its tokens, media by the hash of their content. The prefix cache
 * finds sequences by it. Never changes.
 */
export class PrefixKey {
  readonly #tokens: Int32Array
  readonly #media: readonly KeyMedia[]

  private constructor(tokens: Int32Array, media: readonly KeyMedia[]) {
    this.#tokens = tokens
    this.#media = media
  }

  static of(chunks: readonly PromptChunk[]): PrefixKey {
    const lengths = chunks.map((chunk) => (chunk.type === 'media' ? chunk.encodable.length : chunk.tokens.length))
    const tokens = new Int32Array(lengths.reduce((sum, length) => sum + length, 0))
    const media: KeyMedia[] = []
    let at = 0
    for (const [index, chunk] of chunks.entries()) {
      const cells = lengths[index]!
      if (chunk.type === 'text') tokens.set(chunk.tokens, at)
      else {
        tokens.fill(MEDIA_CELL, at, at + cells)
        media.push({ at, cells, positions: chunk.encodable.positions, key: chunk.key })
      }
      at += cells
    }
    return new PrefixKey(tokens, media)
  }

  /** Cells. */
  get length(): number {
    return this.#tokens.length
  }

  /** The key of the same with text after it. */
  concat(tokens: readonly number[]): PrefixKey {
    const longer = new Int32Array(this.length + tokens.length)
    longer.set(this.#tokens)
    longer.set(tokens, this.length)
    return new PrefixKey(longer, this.#media)
  }

  /** The key of the first cells; null when that would cut an image. */
  slice(cells: number): PrefixKey | null {
    if (this.#wholeCells(cells) !== cells) return null
    return new PrefixKey(
      this.#tokens.slice(0, cells),
      this.#media.filter(({ at }) => at < cells),
    )
  }

  /**
   * The longest prefix that both have. It never ends within an image.
   * @param limit most cells of the result.
   */
  commonPrefix(other: PrefixKey, limit = Number.POSITIVE_INFINITY): Cut {
    const end = Math.min(this.length, other.length, limit)
    let cells = 0
    while (cells < end && this.#tokens[cells] === other.#tokens[cells]) cells++
    for (const [index, item] of this.#media.entries()) {
      if (item.at >= cells) break
      const theirs = other.#media[index]
      if (theirs?.at !== item.at || theirs.key !== item.key) cells = item.at
    }
    cells = Math.min(this.#wholeCells(cells), other.#wholeCells(cells))
    return { cells, position: this.#positionAt(cells) }
  }

  /** Under M-RoPE an image takes fewer positions than cells. */
  #positionAt(cells: number): number {
    let position = cells
    for (const item of this.#media) if (item.at < cells) position -= item.cells - item.positions
    return position
  }

  #wholeCells(cells: number): number {
    const cut = this.#media.find(({ at, cells: length }) => at < cells && at + length > cells)
    return cut?.at ?? cells
  }
}
