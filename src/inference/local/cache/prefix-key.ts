import type { PromptChunk } from '../tokens/prompt-tokens.ts'
import type { Cut } from './kv-cache.ts'

/** A picture, or a tile of one, on a path. */
interface PathImage {
  /** First of its cells. */
  readonly at: number
  readonly cells: number
  readonly positions: number
  /** Same key, same embeddings. */
  readonly key: string
}

/** Stands in `tokens` for every cell of a picture. */
const IMAGE_CELL = -1

/** What a sequence consists of, cell by cell: tokens, and pictures by the hash of their pixels. */
export class PrefixKey {
  readonly #tokens: Int32Array
  readonly #images: readonly PathImage[]

  private constructor(tokens: Int32Array, images: readonly PathImage[]) {
    this.#tokens = tokens
    this.#images = images
  }

  static of(chunks: readonly PromptChunk[]): PrefixKey {
    const lengths = chunks.map((chunk) => (chunk.type === 'media' ? chunk.encodable.length : chunk.tokens.length))
    const tokens = new Int32Array(lengths.reduce((sum, length) => sum + length, 0))
    const images: PathImage[] = []
    let at = 0
    for (const [index, chunk] of chunks.entries()) {
      const cells = lengths[index]!
      if (chunk.type === 'text') tokens.set(chunk.tokens, at)
      else {
        tokens.fill(IMAGE_CELL, at, at + cells)
        images.push({ at, cells, positions: chunk.encodable.positions, key: chunk.key })
      }
      at += cells
    }
    return new PrefixKey(tokens, images)
  }

  /** Cells. */
  get length(): number {
    return this.#tokens.length
  }

  /** The path with text after it. */
  concat(tokens: readonly number[]): PrefixKey {
    const longer = new Int32Array(this.length + tokens.length)
    longer.set(this.#tokens)
    longer.set(tokens, this.length)
    return new PrefixKey(longer, this.#images)
  }

  /** The first cells of the path; null when that would cut a picture. */
  slice(cells: number): PrefixKey | null {
    if (this.#wholeCells(cells) !== cells) return null
    return new PrefixKey(
      this.#tokens.slice(0, cells),
      this.#images.filter(({ at }) => at < cells),
    )
  }

  /**
   * How much the two have in common, without a part of a picture.
   * @param limit cells of the result at most.
   */
  commonPart(other: PrefixKey, limit = Number.POSITIVE_INFINITY): Cut {
    const end = Math.min(this.length, other.length, limit)
    let cells = 0
    while (cells < end && this.#tokens[cells] === other.#tokens[cells]) cells++
    for (const [index, image] of this.#images.entries()) {
      if (image.at >= cells) break
      const theirs = other.#images[index]
      if (theirs?.at !== image.at || theirs.key !== image.key) cells = image.at
    }
    cells = Math.min(this.#wholeCells(cells), other.#wholeCells(cells))
    return { cells, position: this.#positionAt(cells) }
  }

  /** Under M-RoPE a picture takes fewer positions than cells. */
  #positionAt(cells: number): number {
    let position = cells
    for (const image of this.#images) if (image.at < cells) position -= image.cells - image.positions
    return position
  }

  #wholeCells(cells: number): number {
    const cut = this.#images.find(({ at, cells: length }) => at < cells && at + length > cells)
    return cut?.at ?? cells
  }
}
