import type { Sampling } from '../contract/work.ts'

/** The sampling of one of several completions of a request: with a seed each has its own, or they would all be the same. */
export function seededFor(completion: number, sampling: Sampling): Sampling {
  const { seed } = sampling
  return seed === undefined ? sampling : { ...sampling, seed: (seed + completion) >>> 0 }
}
