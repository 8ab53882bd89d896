import type { Cut } from './kv-cache.ts'
import type { PrefixKey } from './prefix-key.ts'

/** A computed prefix of a prompt and its source. */
export interface PrefixMatch<Source> {
  readonly source: Source
  /** The part of the source that the prompt shares. */
  readonly cut: Cut
}

/** Minimum cells of a match. Shorter common prefixes, such as those from a template, are faster to compute than to share. */
export const SHORTEST_MATCH = 16

/**
 * The longest match with sources in the order of `PrefixTree.find`.
 * @param use returns the match that a source offers for its common prefix with the key.
 */
export function longestMatch<Source extends { readonly key: PrefixKey }>(
  sources: Iterable<Source>,
  key: PrefixKey,
  use: (source: Source, common: Cut) => PrefixMatch<Source> | null,
): PrefixMatch<Source> | null {
  let best: PrefixMatch<Source> | null = null
  for (const source of sources) {
    if (best !== null && best.cut.cells >= source.key.length) break
    const match = use(source, source.key.commonPrefix(key))
    if (match !== null && match.cut.cells > (best?.cut.cells ?? 0)) best = match
  }
  return best === null || best.cut.cells < SHORTEST_MATCH ? null : best
}
