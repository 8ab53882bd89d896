import type { PromptChunk } from '../tokens/prompt-tokens.ts'
import type { Cut } from './kv-cache.ts'

/** An image, a tile of one, or a stretch of audio within a key. */
export interface KeyMedia {
  /** Index of its first cell. */
  readonly at: number
  readonly cells: number
  readonly positions: number
  /** Media with the same key have the same embeddings. */
  readonly key: string
}

/** The symbol of every media cell but the first, which has a hash of its key. */
const MEDIA_CELL = -1

/**
 * Describes the content of a sequence, cell by cell: text by its tokens, media by the hash of their content. The first cell of
 * what an adapter computes is described as media whose hash is of the adapter too, so that it begins like nothing else. The
 * prefix cache finds sequences by it. Immutable.
 */
export class PrefixKey {
  /** A number for every cell. Common prefixes have equal symbols; different media may also have equal symbols. */
  readonly symbols: Int32Array
  readonly #media: readonly KeyMedia[]

  private constructor(symbols: Int32Array, media: readonly KeyMedia[]) {
    this.symbols = symbols
    this.#media = media
  }

  /**
   * @param adapter key of the adapter that computes it, which the symbol of the first cell includes; null for the model
   * alone.
   */
  static of(chunks: readonly PromptChunk[], adapter: string | null = null): PrefixKey {
    const lengths = chunks.map((chunk) => (chunk.type === 'media' ? chunk.encodable.length : chunk.tokens.length))
    const tokens = new Int32Array(lengths.reduce((sum, length) => sum + length, 0))
    const media: KeyMedia[] = []
    let at = 0
    for (const [index, chunk] of chunks.entries()) {
      const cells = lengths[index]!
      if (chunk.type === 'text') tokens.set(chunk.tokens, at)
      else {
        tokens.fill(MEDIA_CELL, at, at + cells)
        tokens[at] = hashOf(chunk.key)
        media.push({ at, cells, positions: chunk.encodable.positions, key: chunk.key })
      }
      at += cells
    }
    if (adapter !== null && tokens.length > 0) {
      const first = media[0]?.at === 0 ? media.shift()! : { at: 0, cells: 1, positions: 1, key: `${tokens[0]}` }
      const key = `${adapter} ${first.key}`
      tokens[0] = hashOf(key)
      media.unshift({ ...first, key })
    }
    return new PrefixKey(tokens, media)
  }

  /**
   * A key that continues another one; or, with null, a key of these cells alone.
   * @param symbols of the cells that follow.
   * @param media within them.
   */
  static continued(before: PrefixKey | null, symbols: Int32Array, media: readonly KeyMedia[]): PrefixKey {
    const start = before?.length ?? 0
    const all = new Int32Array(start + symbols.length)
    if (before !== null) all.set(before.symbols)
    all.set(symbols, start)
    return new PrefixKey(all, [...(before === null ? [] : before.#media), ...media])
  }

  /** Cells. */
  get length(): number {
    return this.symbols.length
  }

  /** This key with text after it. */
  concat(tokens: readonly number[]): PrefixKey {
    const longer = new Int32Array(this.length + tokens.length)
    longer.set(this.symbols)
    longer.set(tokens, this.length)
    return new PrefixKey(longer, this.#media)
  }

  /** The key of the first cells; null if that would cut an image. */
  slice(cells: number): PrefixKey | null {
    if (this.#wholeCells(cells) !== cells) return null
    return new PrefixKey(
      this.symbols.subarray(0, cells),
      this.#media.filter(({ at }) => at < cells),
    )
  }

  /** Media that begin in the cells from `from` to below `to`. */
  mediaWithin(from: number, to: number): readonly KeyMedia[] {
    return this.#media.filter(({ at }) => at >= from && at < to)
  }

  /** The longest common prefix. It never ends within an image. */
  commonPrefix(other: PrefixKey): Cut {
    const end = Math.min(this.length, other.length)
    let cells = 0
    while (cells < end && this.symbols[cells] === other.symbols[cells]) cells++
    for (const [index, item] of this.#media.entries()) {
      if (item.at >= cells) break
      const theirs = other.#media[index]
      if (theirs?.at !== item.at || theirs.key !== item.key) cells = item.at
    }
    cells = Math.min(this.#wholeCells(cells), other.#wholeCells(cells))
    return { cells, position: this.#positionAt(cells) }
  }

  /** The cut after at most `cells` cells, not within an image. */
  cutBefore(cells: number): Cut {
    const whole = this.#wholeCells(Math.min(cells, this.length))
    return { cells: whole, position: this.#positionAt(whole) }
  }

  /** The cut after at least `cells` cells, or after all, not within an image. */
  cutAfter(cells: number): Cut {
    const cut = this.#media.find(({ at, cells: length }) => at < cells && at + length > cells)
    return this.cutBefore(cut === undefined ? cells : cut.at + cut.cells)
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

/** Negative, so that it never equals a token. */
function hashOf(text: string): number {
  let hash = 0
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash | 0x80000000
}
