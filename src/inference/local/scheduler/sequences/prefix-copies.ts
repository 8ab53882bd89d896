import type { KvCache, KvSequence } from '../../cache/kv-cache.ts'
import type { PrefixCache, PrefixCopy } from '../../cache/prefix-cache.ts'
import type { PrefixKey } from '../../cache/prefix-key.ts'
import type { RetainedSequence } from '../../cache/retained-sequences.ts'
import type { Returns } from '../../cache/returns.ts'

/** The costs that decide how long a device keeps cells. */
export interface Keeping {
  /** Ms per prompt row. */
  readonly rowMs: number
  /** Additional time of a step per retained cell, in ms; 0 if unknown. */
  readonly idleCellMs: number
  readonly returns: Pick<Returns, 'share'>
}

interface Pending {
  /** The step in which it was retained. */
  readonly since: number
  /** Null before its first piece. */
  copy: PrefixCopy | null
}

/** Maximum time per step for copies of sequences before their release, in ms. */
const RELEASE_MS = 8
/**
 * Steps after which a sequence is copied beside running ones: if the next turn of the chat comes sooner, no copy is needed.
 */
const DUE_STEPS = 64
/** If less than this fraction of the KV cache is free, copies begin at once. */
const TIGHT_SHARE = 1 / 8
/**
 * Every step takes about 10 ns per cell, even to skip it; restoring a byte takes 0.1 ns. A copied sequence is released when
 * it has cost as much as its restoration will: after the bytes of a cell divided by this number of steps.
 */
const CELL_BYTES_PER_STEP = 100
/**
 * Beside running sequences, cells are copied only if copying takes at most this fraction of the time to compute them. A cell
 * is copied again when it is restored, and many cells are never needed again. A GPU computes about as fast as it copies.
 */
const WORTHWHILE_SHARE = 0.2
/**
 * Idle time before copies begin where cells are kept, in ms: a client that sends one request after the other never waits for
 * them.
 */
const REST_MS = 1000
/**
 * Rows whose masks for an idle cell take as long as a one-row step takes to read the cell: the CPU writes a mask value for
 * each row and cell. 950 prompt rows beside 11,000 idle cells took some 17 ms longer (H200).
 */
const ROWS_PER_PASS = 16
/** Weight of the newest copy in the average time of a cell. */
const AVERAGE_WEIGHT = 0.2

/**
 * Copies retained sequences into the prefix cache without delaying running ones: while the engine is idle, after some steps,
 * or when cells get scarce; piece by piece, some milliseconds per step. It owns the list of sequences to copy, the measured
 * cost of a copy, and the release of copied sequences that have cost enough.
 */
export class PrefixCopies {
  readonly #kv: KvCache
  readonly #cache: PrefixCache
  /** Longest waiting first. */
  readonly #pending = new Map<RetainedSequence, Pending>()
  /** Copied sequences with the step in which each is due for release, soonest first. */
  readonly #copied = new Map<RetainedSequence, number>()
  #steps = 0
  /** Copy time in this step, in ms. */
  #spentMs = 0
  readonly #rowMs: number
  readonly #keeping: Keeping | null
  /** Number of passes over all cells; a step with many rows counts as several. */
  #passes = 0
  /** If cells are kept: all retained sequences, with `#passes` at the last use of each. */
  readonly #kept = new Map<RetainedSequence, number>()
  /** When the last step ended. */
  #steppedAt = 0
  /** Time to copy a cell, in ms; null before the first copy. */
  #cellMs: number | null = null

  /**
   * @param rowMs time per prompt row, in ms; infinite if copies always pay off.
   * @param keeping null if retained sequences are copied soon, and released soon after.
   */
  constructor(kv: KvCache, cache: PrefixCache, rowMs: number, keeping: Keeping | null = null) {
    this.#kv = kv
    this.#cache = cache
    this.#rowMs = rowMs
    this.#keeping = keeping
  }

  /** Whether copies may delay running sequences. */
  get #isWorthwhile(): boolean {
    return this.#cellMs === null || this.#cellMs <= WORTHWHILE_SHARE * this.#rowMs
  }

  /** Idle time before copies begin, in ms. */
  get restMs(): number {
    if (this.#keeping === null || this.#pending.size === 0) return 0
    return Math.max(0, this.#steppedAt + REST_MS - performance.now())
  }

  add(retained: RetainedSequence): void {
    this.#pending.set(retained, { since: this.#steps, copy: null })
    if (this.#keeping !== null) this.#kept.set(retained, this.#passes)
  }

  forget(retained: RetainedSequence): void {
    this.#pending.delete(retained)
    this.#copied.delete(retained)
    this.#kept.delete(retained)
  }

  /** Marks a sequence as used, so that it stays longer. */
  touch(retained: RetainedSequence): void {
    if (this.#copied.delete(retained)) this.#releaseLater(retained)
    if (this.#kept.has(retained)) this.#kept.set(retained, this.#passes)
  }

  /** Copies a sequence before its release, within the time of a step. */
  beforeRelease(retained: RetainedSequence): void {
    if (this.#pending.has(retained)) this.copyNow(retained.organisation, retained.key, retained.sequence)
  }

  /** Copies a sequence, within the time of a step. */
  copyNow(organisation: string, key: PrefixKey, sequence: KvSequence): void {
    if (!this.#isWorthwhile) return
    const copy = this.#cache.begin(organisation, key, sequence)
    if (copy !== null) this.#advance(copy, sequence, RELEASE_MS)
  }

  /**
   * Ends a step: copies due sequences until copies have taken `ms` in this step.
   * @param rows of the step.
   * @returns the retained sequences to release.
   */
  endStep(ms: number, rows = 1): readonly RetainedSequence[] {
    this.#steps++
    this.#passes += 1 + (rows - 1) / ROWS_PER_PASS
    this.#steppedAt = performance.now()
    const { freeCells, freeSequences, capacity } = this.#kv
    const isTight = freeCells < TIGHT_SHARE * capacity || freeSequences === 0
    for (const [retained, pending] of this.#isWorthwhile ? this.#pending : []) {
      if (this.#spentMs >= ms) break
      if (isTight || this.#isDue(retained, pending)) this.#continue(retained, pending, ms)
    }
    this.#spentMs = 0
    if (this.#keeping !== null) {
      const isLeft = (item: RetainedSequence) => this.#isWorthwhile && this.#pending.has(item)
      return [...this.#kept.keys()].filter((item) => this.#hasCostEnough(item) && !isLeft(item))
    }
    const expired: RetainedSequence[] = []
    for (const [retained, step] of this.#copied) {
      if (step > this.#steps) break
      expired.push(retained)
    }
    return expired
  }

  /** Copies for about `ms` while the engine is idle. @returns whether any sequence waited. */
  continueIdle(ms: number): boolean {
    const hasAny = this.#pending.size > 0
    for (const [retained, pending] of this.#pending) {
      if (this.#spentMs >= ms) break
      this.#continue(retained, pending, ms)
    }
    this.#spentMs = 0
    return hasAny
  }

  #isDue(retained: RetainedSequence, { since }: Pending): boolean {
    return this.#keeping === null ? this.#steps - since >= DUE_STEPS : this.#hasCostEnough(retained)
  }

  /**
   * Whether its cells have cost as much as they are expected to save: the time to restore or recompute them, times the
   * probability that they are needed.
   */
  #hasCostEnough(retained: RetainedSequence): boolean {
    if (this.#keeping === null) return false
    const { rowMs, idleCellMs, returns } = this.#keeping
    const savedMs = this.#copied.has(retained) ? Math.min(rowMs, this.#cellMs ?? rowMs) : rowMs
    return (this.#passes - this.#kept.get(retained)!) * idleCellMs > returns.share * savedMs
  }

  #continue(retained: RetainedSequence, pending: Pending, ms: number): void {
    const { organisation, key, sequence } = retained
    pending.copy ??= this.#cache.begin(organisation, key, sequence)
    if (pending.copy !== null && this.#advance(pending.copy, sequence, ms)) return
    this.#pending.delete(retained)
    if (this.#cache.holds(organisation, key)) this.#releaseLater(retained)
  }

  #releaseLater(retained: RetainedSequence): void {
    const cellBytes = this.#cache.bytes / Math.max(1, this.#cache.cells)
    this.#copied.set(retained, this.#steps + Math.ceil(cellBytes / CELL_BYTES_PER_STEP))
  }

  /** Copies pieces until copies have taken `ms`. @returns whether there is more to copy. */
  #advance(copy: PrefixCopy, sequence: KvSequence, ms: number): boolean {
    const before = this.#spentMs
    const started = performance.now()
    while (this.#spentMs < ms) {
      const [cells, spentMs] = [copy.next.cells, this.#spentMs]
      const hasMore = this.#cache.copyNext(copy, sequence)
      this.#spentMs = before + performance.now() - started
      this.#learn(copy.next.cells - cells, this.#spentMs - spentMs)
      if (!hasMore) return false
    }
    return true
  }

  #learn(cells: number, ms: number): void {
    if (cells === 0) return
    this.#cellMs ??= ms / cells
    this.#cellMs += AVERAGE_WEIGHT * (ms / cells - this.#cellMs)
  }
}
