import type { EngineStats } from '../../engine.ts'
import type { Cut, KvCache, KvSequence } from '../cache/kv-cache.ts'
import { type CachedPrefix, PrefixCache, type PrefixMatch, SHORTEST_MATCH } from '../cache/prefix-cache.ts'
import type { PrefixKey } from '../cache/prefix-key.ts'
import { PrefixCopies } from './prefix-copies.ts'
import type { RunningSequence, SequenceGroup } from './sequence-group.ts'

export type ReuseStats = Pick<
  EngineStats,
  'cachedCells' | 'cachedSequences' | 'reusedTokens' | 'prefixHits' | 'prefixMisses'
>

/**
 * Finds what has been computed of a prompt already, in the prefix cache or with running work of its organisation. It owns
 * the prefix cache and the counts of hits and misses. The sequence manager calls it when it opens the root of a group and
 * when it closes one.
 */
export class PrefixReuse {
  readonly #kv: KvCache
  readonly #cache: PrefixCache
  readonly #copies: PrefixCopies
  /** What was found in the prefix cache, and in which version of it. */
  readonly #found = new WeakMap<
    PrefixKey,
    { readonly version: number; readonly match: PrefixMatch<CachedPrefix> | null }
  >()
  /** The common prefix of two keys. They are compared once, and not again at every step that one of them waits. */
  readonly #common = new WeakMap<PrefixKey, WeakMap<PrefixKey, Cut>>()
  #reusedTokens = 0
  #hits = 0
  #misses = 0

  constructor(kv: KvCache, prefixCacheBytes: number) {
    this.#kv = kv
    this.#cache = new PrefixCache(kv, prefixCacheBytes)
    this.#copies = new PrefixCopies(kv, this.#cache)
  }

  get stats(): ReuseStats {
    return {
      cachedCells: this.#cache.cells,
      cachedSequences: this.#cache.entries,
      reusedTokens: this.#reusedTokens,
      prefixHits: this.#hits,
      prefixMisses: this.#misses,
    }
  }

  /** The longest prefix of the group's prompt that is in the prefix cache or in the KV cache. */
  find({ organisation, key }: SequenceGroup, running: readonly RunningSequence[]): PrefixMatch | null {
    let best: PrefixMatch | null = this.#findCached(organisation, key)
    const inKv = [
      ...running.map(({ group }) => ({ about: group, source: group.root?.kvSequence ?? null })),
      ...this.#copies.pending.map(({ copy, sequence }) => ({ about: copy, source: sequence })),
    ]
    for (const { about, source } of inKv) {
      if (source === null || about.organisation !== organisation) continue
      const common = this.#commonPrefix(key, about.key)
      const cut = source.cells < common.cells ? key.cutBefore(source.cells) : common
      // Cells that are shared cost less than copied ones.
      if (cut.cells < SHORTEST_MATCH || cut.cells < (best?.cut.cells ?? 0)) continue
      if (this.#kv.canCut(source, cut)) best = { source, cut }
    }
    return best
  }

  /** Cells of the group's prompt that can be shared with running work: they take no room of their own. */
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
    if (match === null || (isCached(match) && this.#cache.cellsToRestore(match) > this.#kv.freeCells)) {
      this.#misses++
      return this.#kv.fork(null)
    }
    this.#hits++
    this.#reusedTokens += match.cut.cells
    return isCached(match) ? this.#cache.restore(match) : this.#kv.fork(match.source as KvSequence, match.cut)
  }

  /**
   * Copies what the root of a group holds into the prefix cache, now or beside the next steps.
   * @param generated tokens that it holds after the prompt.
   */
  keep({ organisation, key, root }: SequenceGroup, generated: readonly number[] = []): void {
    const kvSequence = root?.kvSequence ?? null
    if (kvSequence === null) return
    const held = (generated.length === 0 ? key : key.concat(generated)).slice(kvSequence.cells)
    if (held !== null) this.#copies.add(organisation, held, kvSequence)
  }

  /** What copies that are under way hold in the KV cache. `giveUpCopy` frees it. */
  get held(): { readonly cells: number; readonly sequences: number } {
    const sequences = this.#copies.pending.map(({ sequence }) => sequence)
    return { cells: this.#kv.cellsFreedBy(sequences), sequences: sequences.length }
  }

  /** Copies some of what waits for it. @returns whether anything waited. */
  continueCopies(ms: number): boolean {
    return this.#copies.continue(ms)
  }

  /** Gives up a copy, so that its cells are free. What was copied of it stays. @returns whether there was one. */
  giveUpCopy(): boolean {
    return this.#copies.giveUp()
  }

  #findCached(organisation: string, key: PrefixKey): PrefixMatch<CachedPrefix> | null {
    const { version } = this.#cache
    let found = this.#found.get(key)
    if (found?.version !== version) {
      found = { version, match: this.#cache.find(organisation, key) }
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

function isCached(match: PrefixMatch): match is PrefixMatch<CachedPrefix> {
  return 'saved' in match.source
}
