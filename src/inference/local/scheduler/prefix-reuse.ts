import type { EngineStats } from '../../engine.ts'
import type { KvCache, KvSequence, SavedSequence } from '../cache/kv-cache.ts'
import { PrefixCache, type PrefixMatch, SHORTEST_MATCH } from '../cache/prefix-cache.ts'
import type { RunningSequence, SequenceGroup } from './sequence-group.ts'

export type ReuseStats = Pick<
  EngineStats,
  'cachedCells' | 'cachedSequences' | 'reusedTokens' | 'prefixHits' | 'prefixMisses'
>

/** Memory that the prefix cache may take of the process. */
const PREFIX_CACHE_BYTES = 256 * 2 ** 20

/**
 * Finds what has been computed of a prompt already, in the prefix cache or with running work of its organisation. It owns
 * the prefix cache and the counts of hits and misses. The sequence manager calls it when it opens the root of a group and
 * when it closes one.
 */
export class PrefixReuse {
  readonly #kv: KvCache
  readonly #cache: PrefixCache
  #reusedTokens = 0
  #hits = 0
  #misses = 0

  constructor(kv: KvCache, prefixCacheCells: number) {
    this.#kv = kv
    this.#cache = new PrefixCache(kv, { cells: prefixCacheCells, bytes: PREFIX_CACHE_BYTES })
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
    let best = this.#cache.find(organisation, key)
    for (const { group } of running) {
      const source = group.root?.kvSequence ?? null
      if (source === null || group.organisation !== organisation) continue
      const cut = group.key.commonPrefix(key, source.cells)
      // Cells that are shared cost less than copied ones.
      if (cut.cells >= SHORTEST_MATCH && cut.cells >= (best?.cut.cells ?? 0)) best = { source, cut }
    }
    return best
  }

  /** Cells of the group's prompt that can be shared with running work: they take no room of their own. */
  sharedCells(group: SequenceGroup, running: readonly RunningSequence[]): number {
    const match = this.find(group, running)
    return match === null || isSaved(match.source) ? 0 : match.cut.cells
  }

  /**
   * A KV sequence for the root of a group, with as much of the prompt as has been computed already; null when it is
   * better to wait, because an older sequence is computing more of it.
   */
  open(opening: RunningSequence, running: readonly RunningSequence[]): KvSequence | null {
    const match = this.find(opening.group, running)
    if (isBeingComputed(opening, running, match?.cut.cells ?? 0)) return null
    if (match === null || (isSaved(match.source) && match.source.cells > this.#kv.freeCells)) {
      this.#misses++
      return this.#kv.fork(null)
    }
    const { source, cut } = match
    this.#hits++
    this.#reusedTokens += cut.cells
    return isSaved(source) ? this.#kv.restore(source, cut) : this.#kv.fork(source, cut)
  }

  /**
   * Copies what the root of a group holds into the prefix cache.
   * @param generated tokens that it holds after the prompt.
   */
  keep({ organisation, key, root }: SequenceGroup, generated: readonly number[] = []): void {
    const kvSequence = root?.kvSequence ?? null
    if (kvSequence === null) return
    const held = (generated.length === 0 ? key : key.concat(generated)).slice(kvSequence.cells)
    if (held !== null) this.#cache.add(organisation, held, kvSequence)
  }
}

/** Whether an older sequence is prefilling more of the prompt than the cells that were found. */
function isBeingComputed(
  { group, sequence }: RunningSequence,
  running: readonly RunningSequence[],
  found: number,
): boolean {
  return running.some(({ group: other, sequence: { rank } }) => {
    if (rank >= sequence.rank || other === group || other.organisation !== group.organisation) return false
    const { root } = other
    if (root === null || root.kvSequence === null || root.cursor === null) return false
    const { cells } = other.key.commonPrefix(group.key)
    return cells >= found + SHORTEST_MATCH && cells > root.kvSequence.cells
  })
}

function isSaved(source: KvSequence | SavedSequence): source is SavedSequence {
  return 'state' in source
}
