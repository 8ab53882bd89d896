import type { Sampling } from '../contract/work.ts'

/**
 * The sampling of one of a request's completions. With a seed, each completion gets its own; otherwise all would be
 * equal.
 */
export function seededFor(completion: number, sampling: Sampling): Sampling {
  const { seed } = sampling
  return seed === undefined ? sampling : { ...sampling, seed: (seed + completion) >>> 0 }
}
