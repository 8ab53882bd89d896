import type { Context } from '../native/context.ts'
import { BLOCK_CELLS } from './read-limits.ts'

/** A token that stands in cells of no question. Which one does not matter. */
const ANY_TOKEN = 0

/**
 * Has units of a call begin at cells that are multiples of `BLOCK_CELLS`: attention sums the cells of such a block together. The
 * library takes the first free cells, so the cells between two units are taken before, and no row sees them. They are
 * restored from a copy, which takes a small part of the time of computing as many rows.
 */
export class Fences {
  readonly #context: Context
  /** Ids of sequences: one block's cells, those that become free, those that stay until the end of the call, those after the prefix. */
  readonly #block: number
  readonly #free: number
  readonly #fence: number
  readonly #margin: number
  /** A block's cells. */
  readonly #copy: Uint8Array

  /** Blocks. @param firstSequence the first of four ids that are free. */
  constructor(context: Context, firstSequence: number) {
    this.#context = context
    this.#block = firstSequence
    this.#free = firstSequence + 1
    this.#fence = firstSequence + 2
    this.#margin = firstSequence + 3
    for (let at = 0; at < BLOCK_CELLS; at++) context.batch.add(ANY_TOKEN, at, this.#block, false)
    context.decodeBatch()
    this.#copy = context.saveSequence(this.#block)
    context.clear()
  }

  /** Takes the first free cells until the context is cleared. */
  after(cells: number): void {
    const context = this.#context
    context.removeSequence(this.#margin)
    context.restoreSequence(this.#block, this.#copy)
    context.forkSequence(this.#block, this.#margin, cells)
    context.removeSequence(this.#block)
  }

  /** Takes cells between units of these lengths, which come next, until `remove` is called. */
  between(lengths: readonly number[]): void {
    const context = this.#context
    for (const length of lengths.slice(0, -1)) {
      for (let left = length; left > 0; left -= BLOCK_CELLS) {
        // The block gets the next free cells. They stay taken when the sequence is restored again.
        context.restoreSequence(this.#block, this.#copy)
        const kept = Math.min(left, BLOCK_CELLS)
        context.forkSequence(this.#block, this.#free, kept)
        if (kept < BLOCK_CELLS) context.forkSequence(this.#block, this.#fence, BLOCK_CELLS, kept)
      }
    }
    context.removeSequence(this.#block)
    context.removeSequence(this.#free)
  }

  remove(): void {
    this.#context.removeSequence(this.#fence)
  }
}
