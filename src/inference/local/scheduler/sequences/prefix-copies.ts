import type { KvCache, KvSequence } from '../../cache/kv-cache.ts'
import type { PrefixCache, PrefixCopy } from '../../cache/prefix-cache.ts'
import type { PrefixKey } from '../../cache/prefix-key.ts'
import type { RetainedSequence } from '../../cache/retained-sequences.ts'
import type { Returns } from '../../cache/returns.ts'

/** What it takes to decide how long a device keeps cells. */
export interface Keeping {
  /** Time to compute a row of a prompt, in ms. */
  readonly rowMs: number
  /** Time that a step takes longer for a cell that is retained, in ms; 0 where that is unknown. */
  readonly idleCellMs: number
  readonly returns: Pick<Returns, 'share'>
}

interface Pending {
  /** The step in which it was retained. */
  readonly since: number
  /** Null before its first piece. */
  copy: PrefixCopy | null
}

/** Time per step for copies of sequences that are released in it; in ms. */
const RELEASE_MS = 8
/** Steps after which a sequence is copied beside others: the next turn of a chat that comes sooner spares the copy. */
const DUE_STEPS = 64
/** With less of the KV cache free than this share, copies begin at once. */
const TIGHT_SHARE = 1 / 8
/**
 * Every step passes over a cell in about 10 ns, if only to skip it; restoring a byte takes 0.1 ns. A sequence that is
 * copied is released when it has cost as much as restoring it will: after as many steps as a cell has bytes, divided by
 * this.
 */
const CELL_BYTES_PER_STEP = 100
/**
 * A cell is copied now and once more when it is restored, and many are never needed again. Beside others, copies are made
 * if a cell takes at most this share of the time that it takes to compute it: a GPU computes about as fast as it copies.
 */
const WORTHWHILE_SHARE = 0.2
/**
 * Where cells are kept, copies wait until nothing has run for so long, in ms: a client that sends one request after the other
 * never waits for them.
 */
const REST_MS = 1000
/**
 * Rows of a step whose attention passes over a cell for as long as a step of one row takes to read it: a mask has a number for
 * each row and cell, which the CPU writes. 950 rows of a prompt beside 11,000 idle cells took some 17 ms longer (H200).
 */
const ROWS_PER_PASS = 16
/** Weight of the newest copy in the average time of a cell. */
const AVERAGE_WEIGHT = 0.2

/**
 * Copies retained sequences into the prefix cache without holding up those that run: while nothing runs, or after some
 * steps, or when room gets scarce; piece by piece, some milliseconds per step. It owns which sequences wait for that, what
 * a copy takes, and when sequences that are copied have cost enough.
 */
export class PrefixCopies {
  readonly #kv: KvCache
  readonly #cache: PrefixCache
  /** Longest waiting first. */
  readonly #pending = new Map<RetainedSequence, Pending>()
  /** Those that are copied, with the step in which each is to be released; soonest first. */
  readonly #copied = new Map<RetainedSequence, number>()
  #steps = 0
  /** Time that copies have taken in this step, in ms. */
  #spentMs = 0
  readonly #rowMs: number
  readonly #keeping: Keeping | null
  /** Number of passes over all cells; a step with many rows counts as several. */
  #passes = 0
  /** Where cells are kept: all that is retained, with the passes when each was used last. */
  readonly #kept = new Map<RetainedSequence, number>()
  /** When the last step ended. */
  #steppedAt = 0
  /** Time to copy a cell, in ms; null before the first copy. */
  #cellMs: number | null = null

  /**
   * @param rowMs time to compute a row of a prompt, in ms; infinite where copies are always worth it.
   * @param keeping null where what is retained is copied soon, and leaves soon after that.
   */
  constructor(kv: KvCache, cache: PrefixCache, rowMs: number, keeping: Keeping | null = null) {
    this.#kv = kv
    this.#cache = cache
    this.#rowMs = rowMs
    this.#keeping = keeping
  }

  /** Whether others may wait for copies. */
  get #isWorthwhile(): boolean {
    return this.#cellMs === null || this.#cellMs <= WORTHWHILE_SHARE * this.#rowMs
  }

  /** How long copies must wait if nothing runs, in ms. */
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

  /** It was used, so it stays for longer. */
  touch(retained: RetainedSequence): void {
    if (this.#copied.delete(retained)) this.#releaseLater(retained)
    if (this.#kept.has(retained)) this.#kept.set(retained, this.#passes)
  }

  /** Copies what is about to be released, as far as the time of a step goes. */
  beforeRelease(retained: RetainedSequence): void {
    if (this.#pending.has(retained)) this.copyNow(retained.organisation, retained.key, retained.sequence)
  }

  /** Copies a sequence, as far as the time of a step goes. */
  copyNow(organisation: string, key: PrefixKey, sequence: KvSequence): void {
    if (!this.#isWorthwhile) return
    const copy = this.#cache.begin(organisation, key, sequence)
    if (copy !== null) this.#advance(copy, sequence, RELEASE_MS)
  }

  /**
   * Ends a step: copies what is due until so much time is spent on copies in this step.
   * @param rows of the step.
   * @returns the retained sequences that have cost enough.
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

  /** Copies while nothing runs, for about so much time. @returns whether anything waited. */
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
   * Whether its cells have cost as much as they are expected to save: what it takes to restore or to compute them, times
   * the chance that they are needed.
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

  /** Copies pieces until so much time is spent. @returns whether there is more to copy. */
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
