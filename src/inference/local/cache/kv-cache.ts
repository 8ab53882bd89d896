import type { Context } from '../native/context.ts'

/** Cells that one or more sequences share. A sequence is the path from its segment up to the root. */
interface Segment {
  /** Null at the start of a sequence; replaced when the segment above is cut in two. */
  parent: Segment | null
  cells: number
  /** Sequences that end here and segments that continue this one. */
  references: number
}

/** A sequence in the KV cache. It shares the cells of the sequence that it was forked from. */
export interface Sequence {
  readonly id: number
  /** Position of the next token. Under M-RoPE a picture takes fewer positions than cells. */
  position: number
  /** Cells that it consists of, shared ones included. */
  cells: number
  segment: Segment
}

/** Where a sequence is cut; `position` is that of the first token left out. */
export interface Cut {
  readonly cells: number
  readonly position: number
}

/** A sequence outside of the KV cache: its cells, copied. */
export interface SavedSequence {
  readonly cells: number
  readonly state: Uint8Array
}

type SequenceMemory = Pick<Context, 'cells' | 'forkSequence' | 'removeSequence' | 'saveSequence' | 'restoreSequence'>

/** Hands out sequences and counts cells: each once, however many sequences share it. */
export class KvCache {
  readonly #context: SequenceMemory
  readonly #freeIds: number[]
  readonly #sequences: number
  readonly capacity: number
  #used = 0

  constructor(context: SequenceMemory, sequences: number) {
    this.#context = context
    this.#freeIds = Array.from({ length: sequences }, (_, i) => sequences - 1 - i)
    this.#sequences = sequences
    this.capacity = context.cells
  }

  get usedCells(): number {
    return this.#used
  }

  get freeCells(): number {
    return this.capacity - this.#used
  }

  get usedSequences(): number {
    return this.#sequences - this.#freeIds.length
  }

  get freeSequences(): number {
    return this.#freeIds.length
  }

  /**
   * @param parent sequence to continue, or null for an empty one.
   * @param cut how much of the parent to take; all of it by default.
   */
  fork(parent: Sequence | null, cut?: Cut): Sequence {
    const id = this.#freeIds.pop()
    if (id === undefined) throw new Error('No sequence is free.')
    if (parent === null) return { id, position: 0, cells: 0, segment: { parent: null, cells: 0, references: 1 } }
    const { cells, position } = cut ?? parent
    if (cells > 0) this.#context.forkSequence(parent.id, id, position)
    return { id, position, cells, segment: { parent: this.#share(parent, cells), cells: 0, references: 1 } }
  }

  save({ id, cells }: Sequence): SavedSequence {
    return { cells, state: this.#context.saveSequence(id) }
  }

  /** A new sequence with the beginning of a saved one. There must be room for all of that one. */
  restore({ cells, state }: SavedSequence, cut: Cut): Sequence {
    const sequence = this.fork(null)
    this.#context.restoreSequence(sequence.id, state)
    if (cut.cells < cells) this.#context.removeSequence(sequence.id, cut.position)
    this.grow(sequence, cut.cells, cut.position)
    return sequence
  }

  /** Counts cells that are about to be filled. */
  grow(sequence: Sequence, cells: number, positions: number): void {
    sequence.segment.cells += cells
    sequence.cells += cells
    sequence.position += positions
    this.#used += cells
  }

  release(sequence: Sequence): void {
    this.#context.removeSequence(sequence.id)
    this.#freeIds.push(sequence.id)
    let segment: Segment | null = sequence.segment
    while (segment !== null && --segment.references === 0) {
      this.#used -= segment.cells
      segment = segment.parent
    }
  }

  /** Makes the first cells of a sequence end at the end of a segment, and refers to that segment once more. */
  #share(sequence: Sequence, cells: number): Segment | null {
    if (cells === 0) return null
    let end = sequence.cells
    let segment = sequence.segment
    while (end - segment.cells >= cells) {
      end -= segment.cells
      segment = segment.parent!
    }
    const start = end - segment.cells
    if (end === cells && segment !== sequence.segment) {
      segment.references++
      return segment
    }
    // What follows the cut, be it nothing yet, keeps the segment's identity: others refer to it as their end.
    const upper: Segment = { parent: segment.parent, cells: cells - start, references: 2 }
    segment.parent = upper
    segment.cells = end - cells
    return upper
  }
}
