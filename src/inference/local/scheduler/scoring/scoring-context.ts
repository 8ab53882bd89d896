import type { ReplyTree } from '../../../contract/reply-tree.ts'
import { KvCache, type KvSequence } from '../../cache/kv-cache.ts'
import { rankTokens, type TokenRanking } from '../../native/choice.ts'
import type { Context } from '../../native/context.ts'
import type { RowReading } from '../../native/device/device-rows.ts'
import type { EncodeTurn } from '../../tokens/encoder-turns.ts'
import type { PromptChunk } from '../../tokens/prompt-tokens.ts'
import { type MediaMemory, PrefillCursor } from '../batch/prefill-cursor.ts'
import type { LoadedModel } from '../loaded-model.ts'
import { OTHER_SEQUENCES, type ScoringLimits } from './scoring-limits.ts'
import type { ScoringPrefix } from './scoring-prefix.ts'

/** The last tokens of a question, and some of its replies. */
export interface ScoringUnit {
  readonly tail: Int32Array
  readonly tree: ReplyTree
}

/** Indices of a unit's rows in the last batch. */
export interface UnitRows {
  /** The row of the last token of the tail. */
  readonly root: number
  /** The row of each node of the tree. */
  readonly nodes: readonly number[]
}

/** Sequences of `KvCache`: the prefix and a question's lead. */
const OWN_SEQUENCES = 2
const FIRST_LEAF = OTHER_SEQUENCES
/** The number of cells of a context is a multiple of this, for efficiency. */
const CELL_STEP = 512

/**
 * The KV cache for scoring, separate from that of completions. The cells of a token depend only on the prefix and the
 * question: the prefix is in the first cells, computed in chunks whose bounds depend on it alone. The questions of one call
 * follow, and are removed after the call. So rounding is always the same. It owns the native context and its content; the
 * reply scorer calls it, and it makes one native call at a time.
 */
export class ScoringContext {
  readonly #loaded: LoadedModel
  readonly #limits: ScoringLimits
  readonly #context: Context
  readonly kv: KvCache
  readonly #memory: MediaMemory
  #prefix: ScoringPrefix | null = null
  #prefixSequence: KvSequence | null = null
  #lead: KvSequence | null = null
  #cursor: PrefillCursor | null = null
  /** The sequence that the leaves' sequences continue, and their number. */
  #forked: KvSequence | null = null
  #forks = 0
  /** Number of the last step, for cursors. */
  #steps = 0

  /** @param cells minimum number: for a prefix, a question's lead, and a call. */
  constructor(loaded: LoadedModel, limits: ScoringLimits, cells: number) {
    this.#loaded = loaded
    this.#limits = limits
    this.#context = loaded.createContext({
      cells: Math.ceil(cells / CELL_STEP) * CELL_STEP,
      sequences: FIRST_LEAF + limits.leaves,
      threads: limits.threads,
      batchRows: limits.rows,
      outputs: limits.outputs,
      sequencesPerRow: limits.isRecurrent ? 1 : limits.leaves,
    })
    const { model, usesMrope } = loaded
    this.kv = new KvCache(this.#context, OWN_SEQUENCES, model.cuttablePositions)
    this.#memory = { context: this.#context, kv: this.kv, model, usesMrope }
  }

  get cells(): number {
    return this.#context.cells
  }

  /** The prefix that it holds or that is being computed, or null. */
  get prefix(): ScoringPrefix | null {
    return this.#prefix
  }

  /** Whether the prefix, and the lead if there is one, are complete. */
  get isFilled(): boolean {
    return this.#cursor === null && this.#prefix !== null
  }

  /** Number of threads of the next calls. */
  setThreads(threads: number): void {
    this.#context.setThreads(threads)
  }

  /** The sequence of the prefix; null while it is not complete. */
  get prefixSequence(): KvSequence | null {
    return this.#cursor === null || this.#lead !== null ? this.#prefixSequence : null
  }

  /**
   * Starts another prefix; `fill` computes the missing cells.
   * @param open returns a sequence that may hold the first cells already.
   */
  begin(prefix: ScoringPrefix, open = (kv: KvCache): KvSequence => kv.fork(null)): void {
    this.clear()
    this.#context.setAdapter(prefix.adapter)
    this.#prefixSequence = open(this.kv)
    this.#prefix = prefix
    this.#fill(this.#prefixSequence, prefix.chunks, this.#prefixSequence.cells)
  }

  /** Extends the complete prefix that it holds to a longer one. */
  extend(prefix: ScoringPrefix): void {
    this.#dropForks()
    this.#prefix = prefix
    this.#fill(this.#prefixSequence!, prefix.chunks, this.#prefixSequence!.cells)
  }

  /** Starts a lead between the prefix and the next unit; `fill` computes it. */
  beginLead(chunks: readonly PromptChunk[]): void {
    this.#lead = this.kv.fork(this.#prefixSequence)
    this.#fill(this.#lead, chunks)
  }

  /** Removes the lead. */
  endLead(): void {
    if (this.#lead === null) return
    this.#dropForks()
    this.kv.release(this.#lead)
    this.#lead = null
    this.#cursor = null
  }

  /**
   * Makes the next call that computes the prefix or a lead. Blocks.
   * @param turn of the encoder, if needed.
   * @returns computed prompt tokens, and the encoding time in ms; null while encoding is incomplete.
   */
  fill(turn: EncodeTurn): { readonly tokens: number; readonly encodeMs: number | null } {
    const cursor = this.#cursor
    if (cursor === null) throw new Error('There is nothing to fill.')
    const step = ++this.#steps
    if (cursor.needsEncoding) return { tokens: 0, encodeMs: cursor.encodeMedia(step, turn) }
    const { rows: most } = this.#limits
    const { mediaRows } = this.#context
    let rows = cursor.mediaRows(this.#loaded.compute.wholeMedia ? mediaRows : most, mediaRows)
    if (rows > 0) cursor.decodeMedia(this.#memory, rows, step)
    else {
      rows = cursor.textRows(most)
      cursor.addText(this.#context.batch, this.kv, rows, step)
      this.#context.decodeBatch()
    }
    this.#settle()
    return { tokens: rows, encodeMs: null }
  }

  /**
   * Computes the rows of units in one call. Blocks. The logits are valid until the next call.
   * @param units within the limits together; several only if calls are shared.
   */
  decode(units: readonly ScoringUnit[]): UnitRows[] {
    const source = this.#lead ?? this.#prefixSequence
    if (source === null) throw new Error('There is no prefix.')
    this.#fork(
      source,
      units.reduce((sum, { tree }) => sum + tree.leaves, 0),
    )
    let leaf = FIRST_LEAF
    const placed = units.map((unit) => {
      const rows = this.#limits.isRecurrent
        ? this.#addPaths(unit, source.position, leaf)
        : this.#addTree(unit, source.position, leaf)
      leaf += unit.tree.leaves
      return rows
    })
    try {
      this.#context.decodeBatch()
    } finally {
      this.#removeUnits(source, leaf)
    }
    return placed
  }

  /** Logits of a row of the last call, by token. */
  logits(row: number): Float32Array {
    return this.#context.logits(row)
  }

  /** Logits of some tokens of rows of the last call, and the rows' log-sum-exps. */
  read(wanted: ReadonlyMap<number, ReadonlySet<number>>): ReadonlyMap<number, RowReading> {
    return this.#context.read(wanted)
  }

  /** The log-probability of a token after a row of the last call, and the likeliest alternatives. */
  rank(row: number, token: number, most: number): TokenRanking {
    return rankTokens(this.#context.operations, this.#context.logits(row), token, most)
  }

  clear(): void {
    this.#dropForks()
    if (this.#lead !== null) this.kv.release(this.#lead)
    if (this.#prefixSequence !== null) this.kv.release(this.#prefixSequence)
    this.#lead = null
    this.#prefixSequence = null
    this.#prefix = null
    this.#cursor = null
    this.#context.batch.clear()
    // Cells are allocated from the first one again.
    this.#context.clear()
  }

  close(): void {
    this.#context.close()
  }

  #fill(sequence: KvSequence, chunks: readonly PromptChunk[], skip = 0): void {
    this.#cursor = new PrefillCursor(sequence, chunks, skip)
    this.#settle()
  }

  #settle(): void {
    if (this.#cursor?.isDone === true) this.#cursor = null
  }

  /** Forks a sequence for each leaf. The forks stay until the source changes. */
  #fork(source: KvSequence, leaves: number): void {
    if (this.#forked !== source) this.#dropForks()
    this.#forked = source
    for (; this.#forks < leaves; this.#forks++) {
      if (source.cells > 0) this.#context.forkSequence(source.id, FIRST_LEAF + this.#forks, source.position)
    }
  }

  #dropForks(): void {
    for (let fork = 0; fork < this.#forks; fork++) this.#context.removeSequence(FIRST_LEAF + fork)
    this.#forked = null
    this.#forks = 0
  }

  /** Adds a row for each token. A row that replies share belongs to all of their sequences. */
  #addTree({ tail, tree }: ScoringUnit, position: number, leaf: number): UnitRows {
    const { batch } = this.#context
    const last = tail.length - 1
    for (let at = 0; at < last; at++) batch.addShared(tail[at]!, position + at, leaf, leaf + tree.leaves, false)
    const root = batch.addShared(tail[last]!, position + last, leaf, leaf + tree.leaves, true)
    const nodes = tree.nodes.map(({ token, depth, firstLeaf, endLeaf }) =>
      batch.addShared(token, position + tail.length + depth, leaf + firstLeaf, leaf + endLeaf, true),
    )
    return { root, nodes }
  }

  /** Adds separate rows for each leaf. Of rows with the same tokens, those of the first leaf have logits. */
  #addPaths({ tail, tree }: ScoringUnit, position: number, leaf: number): UnitRows {
    const { batch } = this.#context
    let root = -1
    const nodes: number[] = []
    for (let path = 0; path < tree.leaves; path++) {
      const sequence = leaf + path
      for (const [at, token] of tail.entries()) {
        const isRoot = path === 0 && at === tail.length - 1
        const row = batch.add(token, position + at, sequence, isRoot)
        if (isRoot) root = row
      }
      for (const [node, { token, depth, firstLeaf, endLeaf }] of tree.nodes.entries()) {
        if (path < firstLeaf || path >= endLeaf) continue
        const row = batch.add(token, position + tail.length + depth, sequence, path === firstLeaf)
        if (path === firstLeaf) nodes[node] = row
      }
    }
    return { root, nodes }
  }

  /** Removes everything after the prefix and the lead. */
  #removeUnits(source: KvSequence, end: number): void {
    if (this.#limits.isRecurrent) {
      this.#dropForks()
      return
    }
    for (let leaf = FIRST_LEAF; leaf < end; leaf++) this.#context.removeSequence(leaf, source.position)
  }
}
