import type { Context } from '../native/context.ts'

/** Cells that one or more sequences share. A sequence consists of its segment and all ancestors. */
interface Segment {
  /** Null at the start of a sequence; replaced when the parent is split. */
  parent: Segment | null
  cells: number
  /** Sequences that end here and segments that continue this one. */
  references: number
}

/** A sequence in the KV cache. It shares the cells of the sequence that it was forked from. Only `KvCache` changes it. */
export interface KvSequence {
  readonly id: number
  /** Position of the next token. Under M-RoPE an image takes fewer positions than cells. */
  readonly position: number
  /** Its cells, including shared ones. */
  readonly cells: number
}

interface OwnedSequence extends KvSequence {
  position: number
  cells: number
  readonly segment: Segment
}

/** Where a sequence is cut; `position` is that of the first token after the cut. */
export interface Cut {
  readonly cells: number
  readonly position: number
}

/** Before the first cell. */
export const START: Cut = { cells: 0, position: 0 }

/** Some of a sequence's cells, of which a copy is outside the KV cache. */
export interface SavedRange {
  readonly from: Cut
  readonly to: Cut
  /** The only number of cells after which a sequence may be cut within them; null for any. */
  readonly onlyCut: number | null
}

/** A copy of these cells. */
export interface SavedCells extends SavedRange {
  readonly state: Uint8Array
}

/** Saved cells, wanted up to `end`. */
export interface WantedCells {
  readonly saved: SavedCells
  readonly end: Cut
}

type SequenceMemory = Pick<
  Context,
  'cells' | 'forkSequence' | 'removeSequence' | 'sequenceBytes' | 'firstPosition' | 'saveSequence' | 'restoreSequence'
>

/**
 * Owns the sequences of the KV cache and counts its cells, shared ones once. The sequence manager forks and releases
 * sequences; prefill cursors and sequences of the scheduler fill them.
 */
export class KvCache {
  readonly #context: SequenceMemory
  readonly #freeIds: number[]
  /** The sequence id for copying a part of a sequence. */
  readonly #copyId: number
  readonly #cuttablePositions: number
  /** Sequences that were not released. */
  readonly #sequences = new Map<KvSequence, OwnedSequence>()
  readonly capacity: number
  #used = 0

  /**
   * @param sequences maximum number in use; the context must have one id more.
   * @param cuttablePositions see `Model.cuttablePositions`.
   */
  constructor(context: SequenceMemory, sequences: number, cuttablePositions = Number.POSITIVE_INFINITY) {
    this.#context = context
    this.#copyId = sequences
    this.#cuttablePositions = cuttablePositions
    this.#freeIds = Array.from({ length: sequences }, (_, i) => sequences - 1 - i)
    this.capacity = context.cells
  }

  get usedCells(): number {
    return this.#used
  }

  get freeCells(): number {
    return this.capacity - this.#used
  }

  get usedSequences(): number {
    return this.#sequences.size
  }

  get freeSequences(): number {
    return this.#freeIds.length
  }

  /** Whether a part of a sequence can be copied. The state of a recurrent layer is that of the whole sequence. */
  get copiesParts(): boolean {
    return this.#cuttablePositions > 0
  }

  /** Whether the beginning of a sequence can be reused without the rest. */
  canCut(source: Cut, cut: Cut): boolean {
    return cut.cells === source.cells || source.position <= this.#cuttablePositions
  }

  /**
   * A new sequence that continues `parent`, or an empty one when it is null. Copies no cells.
   * @param cut the part of the parent to continue; all of it by default.
   */
  fork(parent: KvSequence | null, cut?: Cut): KvSequence {
    const source = parent === null ? null : this.#own(parent)
    const id = this.#freeIds.pop()
    if (id === undefined) throw new Error('No sequence is free.')
    if (source === null) return this.#create(id, { cells: 0, position: 0 }, null)
    const { cells, position } = cut ?? source
    if (cells > 0) this.#context.forkSequence(source.id, id, position)
    return this.#create(id, { cells, position }, this.#share(source, cells))
  }

  /** Exact size of a copy of the cells, in bytes. */
  measure(sequence: KvSequence, from: Cut, to: Cut): number {
    return this.#select(sequence, from, to, (id) => this.#context.sequenceBytes(id))
  }

  /** Copies cells out of the KV cache. Blocks: about 0.1 ms per MB, and 0.5 to 3 ms per MB of new memory. */
  save(sequence: KvSequence, from: Cut, to: Cut): SavedCells {
    const onlyCut = this.#onlyCut(this.#own(sequence), to)
    return { from, to, onlyCut, state: this.#select(sequence, from, to, (id) => this.#context.saveSequence(id)) }
  }

  /**
   * Where a copy of a sequence up to `to` can be cut. llama.cpp gives cells before the sliding window of a sequence's next token
   * to other sequences, and a copy has none of those before the window at its end.
   */
  #onlyCut({ id, position, cells }: OwnedSequence, to: Cut): number | null {
    const cuttable = this.#cuttablePositions
    if (position <= cuttable) return null
    const first = this.copiesParts ? this.#context.firstPosition(id) : position
    if (first === 0 && to.position <= cuttable) return null
    return first <= Math.max(0, to.position - cuttable) ? to.cells : cells
  }

  /**
   * A new sequence of saved cells: each part begins at the wanted end of the one before it. All cells of a part must fit for
   * a moment.
   * @throws Error if the library cannot read a part. The sequence is then removed.
   */
  restore(parts: readonly WantedCells[]): KvSequence {
    const sequence = this.fork(null)
    try {
      for (const part of parts) this.#restorePart(sequence, part)
    } catch (error) {
      this.release(sequence)
      throw error
    }
    return sequence
  }

  #restorePart(sequence: KvSequence, { saved, end }: WantedCells): void {
    if (saved.from.cells === 0) {
      this.#context.restoreSequence(sequence.id, saved.state)
      if (end.cells < saved.to.cells) this.#context.removeSequence(sequence.id, end.position)
    } else {
      try {
        this.#context.restoreSequence(this.#copyId, saved.state)
        this.#context.forkSequence(this.#copyId, sequence.id, end.position, saved.from.position)
      } finally {
        this.#context.removeSequence(this.#copyId)
      }
    }
    this.grow(sequence, end.cells - sequence.cells, end.position - sequence.position)
  }

  /** Counts cells that are about to be filled. */
  grow(sequence: KvSequence, cells: number, positions: number): void {
    const owned = this.#own(sequence)
    owned.segment.cells += cells
    owned.cells += cells
    owned.position += positions
    this.#used += cells
  }

  /** Whether the last cells of a sequence can be removed again once it has grown by `cells`. */
  mayShrink(sequence: KvSequence, cells: number): boolean {
    return this.#own(sequence).position + cells <= this.#cuttablePositions
  }

  /** Frees the last cells of a sequence. They must hold text that was added since the last fork. */
  shrink(sequence: KvSequence, cells: number): void {
    const owned = this.#own(sequence)
    if (cells > owned.segment.cells) throw new Error(`Sequence ${sequence.id} shares the cells that are to be freed.`)
    if (cells === 0) return
    this.grow(sequence, -cells, -cells)
    this.#context.removeSequence(sequence.id, owned.position)
  }

  /** Frees the sequence, and the cells that no other sequence shares. */
  release(sequence: KvSequence): void {
    let segment: Segment | null = this.#own(sequence).segment
    this.#sequences.delete(sequence)
    this.#freeIds.push(sequence.id)
    this.#context.removeSequence(sequence.id)
    while (segment !== null && --segment.references === 0) {
      this.#used -= segment.cells
      segment = segment.parent
    }
  }

  /** Cells that would be free if these sequences were released. */
  cellsFreedBy(sequences: readonly KvSequence[]): number {
    const released = new Map<Segment, number>()
    let cells = 0
    for (const sequence of sequences) {
      for (let segment: Segment | null = this.#own(sequence).segment; segment !== null; segment = segment.parent) {
        const references = (released.get(segment) ?? 0) + 1
        released.set(segment, references)
        if (references < segment.references) break
        cells += segment.cells
      }
    }
    return cells
  }

  /** @param use receives the id of a sequence with exactly these cells. */
  #select<Result>(sequence: KvSequence, from: Cut, to: Cut, use: (id: number) => Result): Result {
    const { id, cells } = this.#own(sequence)
    if (from.cells === 0 && to.cells === cells) return use(id)
    this.#context.forkSequence(id, this.#copyId, to.position, from.position)
    try {
      return use(this.#copyId)
    } finally {
      this.#context.removeSequence(this.#copyId)
    }
  }

  #create(id: number, { cells, position }: Cut, parent: Segment | null): KvSequence {
    const sequence: OwnedSequence = { id, position, cells, segment: { parent, cells: 0, references: 1 } }
    this.#sequences.set(sequence, sequence)
    return sequence
  }

  #own(sequence: KvSequence): OwnedSequence {
    const owned = this.#sequences.get(sequence)
    if (owned === undefined) throw new Error(`Sequence ${sequence.id} was released.`)
    return owned
  }

  /** Splits segments so that the first `cells` of a sequence end with a segment, and adds a reference to that segment. */
  #share(sequence: OwnedSequence, cells: number): Segment | null {
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
    // The part after the cut, even if it is empty, keeps the segment's identity: other sequences end there.
    const upper: Segment = { parent: segment.parent, cells: cells - start, references: 2 }
    segment.parent = upper
    segment.cells = end - cells
    return upper
  }
}
