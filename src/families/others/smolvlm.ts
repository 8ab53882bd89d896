import { type Family, PLAIN } from '../family.ts'

/** It has no notation for places. */
export const smolVlm: Family = {
  ...PLAIN,
  title: 'SmolVLM, Idefics 3',
  projectors: ['idefics3'],
  // Files give the length of the longer side: four tiles in all models so far.
  image: { patchSize: 16, mergeSize: 4, tiles: { grid: 'longest', along: 4 } },
}
