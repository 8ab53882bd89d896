import { getOrMake } from '../../../../lib/get-or-make.ts'
import { withTimeout } from '../../../../lib/with-timeout.ts'
import { yieldsTo } from '../../../contract/priority.ts'
import type { LocalStats } from '../../../contract/stats.ts'
import type { Cut, KvCache, KvSequence } from '../../cache/kv-cache.ts'
import { pieceAt } from '../../cache/piece.ts'
import { type CachedPrefix, type CopyOptions, PrefixCache } from '../../cache/prefix-cache.ts'
import { PrefixKey } from '../../cache/prefix-key.ts'
import { type PrefixMatch, SHORTEST_MATCH } from '../../cache/prefix-match.ts'
import { type RetainedSequence, RetainedSequences } from '../../cache/retained-sequences.ts'
import { Returns } from '../../cache/returns.ts'
import type { DiskPrefixes, DiskRead } from '../../disk/disk-prefixes.ts'
import { type Keeping, PrefixCopies } from './prefix-copies.ts'
import type { RunningSequence, SequenceGroup } from './sequence-group.ts'

export type ReuseStats = Pick<
  LocalStats,
  | 'cachedCells'
  | 'cachedSequences'
  | 'retainedCells'
  | 'retainedSequences'
  | 'reusedTokens'
  | 'prefixHits'
  | 'prefixMisses'
  | 'diskBytes'
  | 'diskSequences'
  | 'diskHits'
>

/** A prompt, or the beginning of one. */
export interface Prompt {
  readonly organisation: string
  readonly key: PrefixKey
}

export interface Room {
  cells: number
  sequences: number
}

/** The costs that decide how long ended work is kept, and where. */
export interface ReuseCosts {
  /** Time per prompt row to weigh against the copy of a cell, in ms; infinite if copies always pay off. */
  readonly copiedRowMs: number
  /** Null if ended work is copied soon, and released from the KV cache soon after. */
  readonly keeping: Omit<Keeping, 'returns'> | null
}

/** A source of a prompt's prefix: a running sequence, a retained one, or a copy. */
type Source = KvSequence | RetainedSequence | CachedPrefix
type Match = PrefixMatch<Source>

/** Minimum cells for which reading files pays off. */
const LEAST_CELLS_READ = 64
/** Maximum time that a prompt waits for the disk, in ms. */
const MOST_READ_MS = 30_000
/** Number of steps for which a completion is kept that other work may continue. */
const BRIEF_STEPS = 64
const NO_DISK = { diskBytes: 0, diskSequences: 0, diskHits: 0 }

/**
 * Finds the computed prefix of a prompt: in running sequences of its organisation, in retained sequences, or in the prefix
 * cache. It owns the latter two and the counts of hits and misses. The sequence manager calls it when it opens the root of a
 * group, when it closes one, and when it needs cells.
 */
export class PrefixReuse {
  readonly #kv: KvCache
  /** The running sequences of the sequence manager. */
  readonly #running: readonly RunningSequence[]
  readonly #isOn: boolean
  readonly #cache: PrefixCache
  readonly #retained: RetainedSequences
  /** Completions that other work may soon continue. They are not copied, and are released before all others. */
  readonly #brief: RetainedSequences
  /** The last step for which each of them is kept; soonest first. */
  readonly #briefUntil = new Map<RetainedSequence, number>()
  #steps = 0
  readonly #copies: PrefixCopies
  readonly #disk: DiskPrefixes | null
  /** Null if cells are not kept. */
  readonly #returns: Returns | null
  /** Retained sequences that were continued. */
  readonly #continued = new WeakSet<RetainedSequence>()
  /** The match in ended work, and the version of both caches in which it was found. */
  readonly #found = new WeakMap<PrefixKey, { readonly version: number; readonly match: Match | null }>()
  /** Common prefixes of pairs of keys, so that a waiting group does not compare them again at every step. */
  readonly #common = new WeakMap<PrefixKey, WeakMap<PrefixKey, Cut>>()
  #reusedTokens = 0
  #hits = 0
  #misses = 0

  /**
   * @param running sequences that run, at any time.
   * @param prefixCacheBytes limit of the copies; with 0, no ended work is kept.
   * @param disk keeps copies beyond the process; null for none.
   */
  constructor(
    kv: KvCache,
    running: readonly RunningSequence[],
    prefixCacheBytes: number,
    { copiedRowMs, keeping }: ReuseCosts,
    disk: DiskPrefixes | null = null,
  ) {
    this.#kv = kv
    this.#running = running
    this.#isOn = prefixCacheBytes > 0
    this.#disk = this.#isOn ? disk : null
    this.#cache = new PrefixCache(kv, prefixCacheBytes, (piece) => this.#disk?.offer(piece, this.#cache))
    this.#returns = keeping === null ? null : new Returns()
    const kept = keeping === null ? null : { ...keeping, returns: this.#returns! }
    this.#copies = new PrefixCopies(kv, this.#cache, copiedRowMs, kept)
    this.#retained = new RetainedSequences(kv, (item) => this.#copies.forget(item))
    this.#brief = new RetainedSequences(kv, (item) => this.#briefUntil.delete(item))
  }

  get stats(): ReuseStats {
    return {
      cachedCells: this.#cache.cells,
      cachedSequences: this.#cache.entries,
      retainedCells: this.#kv.cellsFreedBy([...this.#retained.items(), ...this.#brief.items()].map(sequenceOf)),
      retainedSequences: this.#retained.count + this.#brief.count,
      reusedTokens: this.#reusedTokens,
      prefixHits: this.#hits,
      prefixMisses: this.#misses,
      ...(this.#disk?.stats ?? NO_DISK),
    }
  }

  /**
   * Reads the prefix of a group's prompt from disk into the prefix cache, if that is faster than prefill.
   * @returns null if there is nothing to read. Never rejects.
   */
  readAhead(group: Prompt): Promise<void> | null {
    if (this.#disk === null) return null
    const found = this.find(group)?.cut.cells ?? 0
    if (group.key.length - found < LEAST_CELLS_READ) return null
    // On errors, the prompt is computed.
    return this.#readAhead(group, this.#disk).catch(() => {})
  }

  async #readAhead(group: Prompt, disk: DiskPrefixes): Promise<void> {
    await disk.refresh(group.organisation)
    const cached = this.#cache.find(group.organisation, group.key)
    const found = this.find(group)?.cut.cells ?? 0
    const read = disk.begin(group, cached?.cut.cells ?? 0, found, this.#cache.limitBytes)
    if (read === null) return
    await withTimeout(Math.min(read.limitMs, MOST_READ_MS), this.#adopt(read, cached, disk), undefined)
  }

  /** Adds the pieces that were read to the prefix cache, up to the first missing one. */
  async #adopt(read: DiskRead, cached: PrefixMatch<CachedPrefix> | null, disk: DiskPrefixes): Promise<void> {
    let last = cached?.source ?? null
    for (const { piece, saved } of read.parts) {
      const { organisation, key } = piece
      const state = await saved
      if (state === null) return
      const { from } = state
      const parent = from.cells === 0 || last === null ? null : pieceAt(last, from)
      if (parent === null && from.cells > 0) return
      // Another prompt may have read the same piece.
      const known = this.#cache.find(organisation, key)
      const isKnown = known?.cut.cells === key.length
      last = isKnown ? known.source : this.#cache.adopt(organisation, parent, key, state)
      if (last === null) return
      if (isKnown) continue
      disk.adopted(last, piece)
      if (piece === read.parts.at(-1)!.piece) disk.countHit()
    }
  }

  /** The longest computed prefix of the prompt. */
  find(prompt: Prompt): Match | null {
    return this.#findRunning(prompt, this.#running, this.#findEnded(prompt.organisation, prompt.key))
  }

  /** @returns the longest prefix that the running sequences have, or `best` if that is longer. */
  #findRunning({ organisation, key }: Prompt, running: readonly RunningSequence[], best: Match | null): Match | null {
    for (const { group } of running) {
      const source = group.root?.kvSequence ?? null
      if (source === null || group.organisation !== organisation) continue
      const common = this.#commonPrefix(key, group.key)
      const cut = source.cells < common.cells ? key.cutBefore(source.cells) : common
      if (cut.cells < SHORTEST_MATCH || !isBetter(cut, best)) continue
      if (this.#kv.canCut(source, cut)) best = { source, cut }
    }
    return best
  }

  /** Cells of the group's prompt that are in the KV cache already and take no new cells. */
  sharedCells(group: SequenceGroup): number {
    const match = this.find(group)
    return match === null || isCached(match) ? 0 : match.cut.cells
  }

  /**
   * A KV sequence for the root of a group, with the computed prefix of its prompt; null if it is better to wait, because an
   * older sequence is computing more of it.
   */
  open(opening: RunningSequence): KvSequence | null {
    const match = this.find(opening.group)
    if (this.#isBeingComputed(opening, match?.cut.cells ?? 0)) return null
    this.#learnReturn(opening.group, match)
    if (match === null || (isCached(match) && !this.#provideAll(this.#cache.cellsToRestore(match)))) {
      this.count(0, opening.group)
      return this.#kv.fork(null)
    }
    this.count(match.cut.cells, opening.group)
    if (isCached(match)) return this.#restore(match)
    if (!isRetained(match)) return this.#kv.fork(match.source as KvSequence, match.cut)
    const { source, cut } = match
    this.#retained.touch(source)
    this.#copies.touch(source)
    const forked = this.#kv.fork(source.sequence, cut)
    if (this.#brief.has(source)) this.#brief.release(source)
    return forked
  }

  #learnReturn({ organisation, key }: SequenceGroup, match: Match | null): void {
    const found = match?.cut.cells ?? 0
    if (this.#returns === null || this.#returns.computed(organisation, key, found) || match === null) return
    if (isCached(match) || isRetained(match)) this.#returns.continued(match.source, found)
    if (isRetained(match)) this.#continued.add(match.source)
  }

  /**
   * Keeps the cells of a group's root, which may then be closed; keeps nothing for a transient group.
   * @param generated tokens in its cells after the prompt.
   */
  keep({ organisation, key, root, isTransient }: SequenceGroup, generated: readonly number[] = []): void {
    const kvSequence = root?.kvSequence ?? null
    if (kvSequence === null || !this.#isOn || isTransient) return
    const held = (generated.length === 0 ? key : key.concat(generated)).slice(kvSequence.cells)
    if (held === null || held.length < SHORTEST_MATCH) return
    if (this.#kv.freeSequences === 0) this.reclaim()
    if (this.#kv.freeSequences === 0) this.#copies.copyNow(organisation, held, kvSequence)
    const retained = this.#retained.add(organisation, held, kvSequence)
    if (retained !== null) this.#copies.add(retained)
  }

  /** Keeps the cells of a completion for some steps, if a sequence is free: other work may continue it. */
  keepBriefly({ group: { organisation, work }, sequence }: RunningSequence): void {
    const { prompt, branch, tokens, kvSequence } = sequence
    if (kvSequence === null || !this.#isOn) return
    const key = PrefixKey.of(prompt, work.adapter?.key)
      .concat([branch.lastToken, ...tokens])
      .slice(kvSequence.cells)
    const kept = key === null ? null : this.#brief.add(organisation, key, kvSequence)
    if (kept !== null) this.#briefUntil.set(kept, this.#steps + BRIEF_STEPS)
  }

  /** Ends a step: copies some of the due sequences. */
  endStep(copyMs: number, rows: number): void {
    this.#steps++
    for (const [kept, until] of this.#briefUntil) {
      if (until > this.#steps) break
      this.#brief.release(kept)
    }
    for (const retained of this.#copies.endStep(copyMs, rows)) this.#giveUp(retained)
  }

  /** Idle time before copies begin, in ms. */
  get restMs(): number {
    return this.#copies.restMs
  }

  /** Copies some ended work while the engine is idle. @returns whether any sequence waited. */
  continueCopies(ms: number): boolean {
    return this.#copies.continueIdle(ms)
  }

  /** Waits until all copies are on disk. */
  async flush(): Promise<void> {
    await this.#disk?.flush()
  }

  /**
   * Copies what the KV cache holds of a prompt, but nothing of transient work. Blocks until all is copied.
   * @returns number of the prompt's cells in copies.
   */
  copy(prompt: Prompt, { isExact }: CopyOptions): number {
    const { organisation, key } = prompt
    if (!isExact) {
      const kept = this.#running.filter(({ group }) => !group.isTransient)
      const match = this.#findRunning(prompt, kept, this.#retained.find(organisation, key))
      if (match !== null) {
        const sequence = isRetained(match) ? match.source.sequence : (match.source as KvSequence)
        this.copyFrom({ organisation, key: key.slice(match.cut.cells)! }, sequence)
      }
    }
    return this.#cache.find(organisation, key, isExact)?.cut.cells ?? 0
  }

  /** A sequence of another KV cache with the computed cells of a prompt, as far as they fit. */
  restoreTo(prompt: Prompt, { kv, isExact }: Required<CopyOptions>): KvSequence {
    this.copy(prompt, { isExact })
    const match = this.#cache.find(prompt.organisation, prompt.key, isExact)
    if (match === null || this.#cache.cellsToRestore(match) > kv.freeCells) return kv.fork(null)
    return this.#restore(match, kv)
  }

  /** Copies a sequence. Blocks until all of it is copied. */
  copyFrom({ organisation, key }: Prompt, sequence: KvSequence, options: CopyOptions = {}): void {
    const copy = this.#cache.begin(organisation, key, sequence, options)
    while (copy !== null && this.#cache.copyNext(copy, sequence));
  }

  /**
   * Counts a hit or a miss; neither for transient work, whose cells are not kept.
   * @param cells that had been computed.
   */
  count(cells: number, { isTransient }: Pick<SequenceGroup, 'isTransient'>): void {
    this.#reusedTokens += cells
    if (isTransient) return
    if (cells === 0) this.#misses++
    else this.#hits++
  }

  /** A sequence with a copy's cells; an empty one if the library rejects the copy. */
  #restore(match: PrefixMatch<CachedPrefix>, kv = this.#kv): KvSequence {
    this.#disk?.touch(match.source)
    try {
      return this.#cache.restore(match, kv)
    } catch {
      // Only a copy from disk can be unusable, even with the right checksum.
      this.#disk?.remove(match.source)
      this.#cache.forget(match.source)
      return kv.fork(null)
    }
  }

  /** Releases one of the retained sequences. @returns whether there was one. */
  reclaim(): boolean {
    return this.#releaseBrief() || this.#release(this.#retained.next())
  }

  #releaseBrief(except: RetainedSequence | null = null): boolean {
    const kept = this.#brief.next(except)
    if (kept !== null) this.#brief.release(kept)
    return kept !== null
  }

  /** Releases retained sequences until `cells` are free, or none is left. */
  provide(cells: number): void {
    while (this.#kv.freeCells < cells && this.reclaim());
  }

  /**
   * Releases retained sequences for a group, unless even all of them would not be enough. Those that the group continues go
   * last.
   * @param missing cells and sequences that must become free if the sequences that the group continues stay.
   * @returns whether any sequence was released.
   */
  makeRoomFor(group: SequenceGroup, missing: Room): boolean {
    const match = this.find(group)
    const own = match !== null && isRetained(match) ? match : null
    if (this.#releaseBrief(own?.source)) return true
    if (own !== null && this.#brief.has(own.source)) {
      const isEnough = this.#retained.cells() >= missing.cells && this.#retained.count >= missing.sequences
      return isEnough ? this.#release(this.#retained.next()) : this.#releaseBrief()
    }
    if (own !== null) {
      const isEnough = this.#retained.cells(own.source) >= missing.cells && this.#retained.count > missing.sequences
      if (isEnough) return this.#release(this.#retained.next(own.source))
      if (missing.cells > 0 && this.#retained.trim(own)) return true
    }
    const needed = missing.cells + (own?.cut.cells ?? 0)
    const isEnough = this.#retained.cells() >= needed && this.#retained.count >= missing.sequences
    return isEnough && this.#release(this.#retained.next(own?.source) ?? own?.source ?? null)
  }

  /** @returns false, and releases nothing, if `cells` cannot become free. */
  #provideAll(cells: number): boolean {
    if (this.#kv.freeCells + this.#retained.cells() + this.#brief.cells() < cells) return false
    this.provide(cells)
    return true
  }

  #release(item: RetainedSequence | null): boolean {
    if (item === null) return false
    this.#copies.beforeRelease(item)
    this.#giveUp(item)
    return true
  }

  #giveUp(item: RetainedSequence): void {
    if (!this.#continued.has(item)) this.#returns?.leaves(item.organisation, item.key)
    this.#retained.release(item)
  }

  #findEnded(organisation: string, key: PrefixKey): Match | null {
    // All versions only grow, so the sum is unique.
    const version = this.#cache.version + this.#retained.version + this.#brief.version
    let found = this.#found.get(key)
    if (found?.version !== version) {
      const cached = this.#cache.find(organisation, key)
      const retained = [this.#retained.find(organisation, key), this.#brief.find(organisation, key)]
      const match = retained.reduce<Match | null>(
        (best, one) => (one !== null && isBetter(one.cut, best) ? one : best),
        cached,
      )
      found = { version, match }
      this.#found.set(key, found)
    }
    return found.match
  }

  #commonPrefix(key: PrefixKey, other: PrefixKey): Cut {
    const cuts = getOrMake(this.#common, key, () => new WeakMap<PrefixKey, Cut>())
    return getOrMake(cuts, other, () => key.commonPrefix(other))
  }

  /**
   * Whether an older sequence is prefilling more of the prompt than the cells that were found. Nothing waits for less
   * urgent work.
   */
  #isBeingComputed({ group, sequence }: RunningSequence, found: number): boolean {
    return this.#running.some(({ group: other, sequence: { rank } }) => {
      if (rank >= sequence.rank || other === group || other.organisation !== group.organisation) return false
      if (yieldsTo(other.priority, group.priority)) return false
      const { root } = other
      if (root === null || root.kvSequence === null || root.cursor === null) return false
      const cut = this.#commonPrefix(group.key, other.key)
      const whole = { cells: other.key.length, position: other.key.length }
      return cut.cells >= found + SHORTEST_MATCH && cut.cells > root.kvSequence.cells && this.#kv.canCut(whole, cut)
    })
  }
}

/** The one in the KV cache is the better of two matches of the same length: its cells are shared, not copied. */
function isBetter(cut: Cut, than: Match | null): boolean {
  return cut.cells >= (than?.cut.cells ?? 0)
}

const sequenceOf = ({ sequence }: RetainedSequence) => sequence

function isCached(match: Match): match is PrefixMatch<CachedPrefix> {
  return 'saved' in match.source
}

function isRetained(match: Match): match is PrefixMatch<RetainedSequence> {
  return 'sequence' in match.source
}
