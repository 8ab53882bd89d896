import type { EngineStats } from '../../engine.ts'
import type { Cut, KvCache, KvSequence } from '../cache/kv-cache.ts'
import { type CachedPrefix, PrefixCache } from '../cache/prefix-cache.ts'
import type { PrefixKey } from '../cache/prefix-key.ts'
import { type PrefixMatch, SHORTEST_MATCH } from '../cache/prefix-match.ts'
import { type RetainedSequence, RetainedSequences } from '../cache/retained-sequences.ts'
import { PrefixCopies } from './prefix-copies.ts'
import type { RunningSequence, SequenceGroup } from './sequence-group.ts'

export type ReuseStats = Pick<
  EngineStats,
  | 'cachedCells'
  | 'cachedSequences'
  | 'retainedCells'
  | 'retainedSequences'
  | 'reusedTokens'
  | 'prefixHits'
  | 'prefixMisses'
>

export interface Room {
  cells: number
  sequences: number
}

/** Something that holds the beginning of a prompt: a running sequence, one that has ended, or a copy. */
type Source = KvSequence | RetainedSequence | CachedPrefix
type Match = PrefixMatch<Source>

/**
 * Finds what has been computed of a prompt already: by running work of its organisation, or by work that has ended, in
 * the KV cache or in the prefix cache. It owns both and the counts of hits and misses. The sequence manager calls it when
 * it opens the root of a group, when it closes one, and when it needs room.
 */
export class PrefixReuse {
  readonly #kv: KvCache
  readonly #isOn: boolean
  readonly #cache: PrefixCache
  readonly #retained: RetainedSequences
  readonly #copies: PrefixCopies
  /** What was found of ended work, and in which version of both caches. */
  readonly #found = new WeakMap<PrefixKey, { readonly version: number; readonly match: Match | null }>()
  /** The common prefix of two keys. They are compared once, and not again at every step that one of them waits. */
  readonly #common = new WeakMap<PrefixKey, WeakMap<PrefixKey, Cut>>()
  #reusedTokens = 0
  #hits = 0
  #misses = 0

  /** @param prefixCacheBytes size of the copies; with 0, nothing of ended work is kept anywhere. */
  constructor(kv: KvCache, prefixCacheBytes: number) {
    this.#kv = kv
    this.#isOn = prefixCacheBytes > 0
    this.#cache = new PrefixCache(kv, prefixCacheBytes)
    this.#copies = new PrefixCopies(kv, this.#cache)
    this.#retained = new RetainedSequences(kv, (item) => this.#copies.forget(item))
  }

  get stats(): ReuseStats {
    return {
      cachedCells: this.#cache.cells,
      cachedSequences: this.#cache.entries,
      retainedCells: this.#retained.cells(),
      retainedSequences: this.#retained.count,
      reusedTokens: this.#reusedTokens,
      prefixHits: this.#hits,
      prefixMisses: this.#misses,
    }
  }

  /** The longest prefix of the group's prompt that has been computed. */
  find({ organisation, key }: SequenceGroup, running: readonly RunningSequence[]): Match | null {
    let best = this.#findEnded(organisation, key)
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

  /** Cells of the group's prompt that are in the KV cache already: they take no room of their own. */
  sharedCells(group: SequenceGroup, running: readonly RunningSequence[]): number {
    const match = this.find(group, running)
    return match === null || isCached(match) ? 0 : match.cut.cells
  }

  /**
   * A KV sequence for the root of a group, with as much of the prompt as has been computed already; null when it is
   * better to wait, because an older sequence is computing more of it.
   */
  open(opening: RunningSequence, running: readonly RunningSequence[]): KvSequence | null {
    const match = this.find(opening.group, running)
    if (this.#isBeingComputed(opening, running, match?.cut.cells ?? 0)) return null
    if (match === null || (isCached(match) && !this.#provideAll(this.#cache.cellsToRestore(match)))) {
      this.#misses++
      return this.#kv.fork(null)
    }
    this.#hits++
    this.#reusedTokens += match.cut.cells
    if (isCached(match)) return this.#cache.restore(match)
    if (!isRetained(match)) return this.#kv.fork(match.source as KvSequence, match.cut)
    this.#retained.touch(match.source)
    this.#copies.touch(match.source)
    return this.#kv.fork(match.source.sequence, match.cut)
  }

  /**
   * Keeps what the root of a group holds; it may be closed afterwards.
   * @param generated tokens that it holds after the prompt.
   */
  keep({ organisation, key, root }: SequenceGroup, generated: readonly number[] = []): void {
    const kvSequence = root?.kvSequence ?? null
    if (kvSequence === null || !this.#isOn) return
    const held = (generated.length === 0 ? key : key.concat(generated)).slice(kvSequence.cells)
    if (held === null || held.length < SHORTEST_MATCH) return
    if (this.#kv.freeSequences === 0) this.#release(this.#retained.next())
    if (this.#kv.freeSequences === 0) this.#copies.copyNow(organisation, held, kvSequence)
    const retained = this.#retained.add(organisation, held, kvSequence)
    if (retained !== null) this.#copies.add(retained)
  }

  /** What ended work holds in the KV cache. Whoever needs it gets it. */
  get held(): Room {
    return { cells: this.#retained.cells(), sequences: this.#retained.count }
  }

  /** Ends a step: copies some of what is due. */
  endStep(copyMs: number): void {
    for (const retained of this.#copies.endStep(copyMs)) this.#retained.release(retained)
  }

  /** Copies some of what ended while nothing runs. @returns whether anything waited for it. */
  continueCopies(ms: number): boolean {
    return this.#copies.continueIdle(ms)
  }

  /** Releases one of the retained sequences. @returns whether there was one. */
  reclaim(): boolean {
    return this.#release(this.#retained.next())
  }

  /** Releases retained sequences until so many cells are free, or none is left. */
  provide(cells: number): void {
    while (this.#kv.freeCells < cells && this.reclaim());
  }

  /**
   * Releases some of the retained sequences for a group, unless all together would not be enough. Those that the group
   * continues go last.
   * @param missing cells and sequences that must become free, given that what the group continues stays.
   * @returns whether anything was released.
   */
  makeRoomFor(group: SequenceGroup, running: readonly RunningSequence[], missing: Room): boolean {
    const match = this.find(group, running)
    const own = match !== null && isRetained(match) ? match : null
    if (own !== null) {
      const isEnough = this.#retained.cells(own.source) >= missing.cells && this.#retained.count > missing.sequences
      if (isEnough) return this.#release(this.#retained.next(own.source))
      if (missing.cells > 0 && this.#retained.trim(own)) return true
    }
    const needed = missing.cells + (own?.cut.cells ?? 0)
    const isEnough = this.#retained.cells() >= needed && this.#retained.count >= missing.sequences
    return isEnough && this.#release(this.#retained.next(own?.source) ?? own?.source ?? null)
  }

  /** @returns false, and releases nothing, when so many cells cannot be free. */
  #provideAll(cells: number): boolean {
    if (this.#kv.freeCells + this.#retained.cells() < cells) return false
    this.provide(cells)
    return true
  }

  #release(item: RetainedSequence | null): boolean {
    if (item === null) return false
    this.#copies.beforeRelease(item)
    this.#retained.release(item)
    return true
  }

  #findEnded(organisation: string, key: PrefixKey): Match | null {
    // Both only grow.
    const version = this.#cache.version + this.#retained.version
    let found = this.#found.get(key)
    if (found?.version !== version) {
      const cached = this.#cache.find(organisation, key)
      const retained = this.#retained.find(organisation, key)
      found = { version, match: retained !== null && isBetter(retained.cut, cached) ? retained : cached }
      this.#found.set(key, found)
    }
    return found.match
  }

  #commonPrefix(key: PrefixKey, other: PrefixKey): Cut {
    let cuts = this.#common.get(key)
    if (cuts === undefined) {
      cuts = new WeakMap()
      this.#common.set(key, cuts)
    }
    let cut = cuts.get(other)
    if (cut === undefined) {
      cut = key.commonPrefix(other)
      cuts.set(other, cut)
    }
    return cut
  }

  /** Whether an older sequence is prefilling more of the prompt than the cells that were found. */
  #isBeingComputed({ group, sequence }: RunningSequence, running: readonly RunningSequence[], found: number): boolean {
    return running.some(({ group: other, sequence: { rank } }) => {
      if (rank >= sequence.rank || other === group || other.organisation !== group.organisation) return false
      const { root } = other
      if (root === null || root.kvSequence === null || root.cursor === null) return false
      const cut = this.#commonPrefix(group.key, other.key)
      const whole = { cells: other.key.length, position: other.key.length }
      return cut.cells >= found + SHORTEST_MATCH && cut.cells > root.kvSequence.cells && this.#kv.canCut(whole, cut)
    })
  }
}

/** Of two that are as long, the one in the KV cache is better: its cells are shared and not copied. */
function isBetter(cut: Cut, than: Match | null): boolean {
  return cut.cells >= (than?.cut.cells ?? 0)
}

function isCached(match: Match): match is PrefixMatch<CachedPrefix> {
  return 'saved' in match.source
}

function isRetained(match: Match): match is PrefixMatch<RetainedSequence> {
  return 'sequence' in match.source
}
