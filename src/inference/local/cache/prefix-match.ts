import type { Cut } from './kv-cache.ts'
import type { PrefixKey } from './prefix-key.ts'

/** Where a prompt's prefix has been computed already, and how much of it. */
export interface PrefixMatch<Source> {
  readonly source: Source
  /** The part of the source that the prompt shares. */
  readonly cut: Cut
}

/** Shorter common prefixes, such as those that a template gives to all prompts, are faster to compute than to share. */
export const SHORTEST_MATCH = 16

/**
 * The longest match with sources in the order of `PrefixTree.find`.
 * @param use what a source offers for the part that it has in common with the key.
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
