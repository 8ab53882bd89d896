import type { Family } from './family.ts'

/** It has no notation for where things are. */
export const smolVlm: Family = {
  title: 'SmolVLM, Idefics 3',
  projectors: ['idefics3'],
  architectures: [],
  // Files say how long the longer side is: four tiles in all models so far.
  image: { patchSize: 16, mergeSize: 4, tiles: { grid: 'longest', along: 4 } },
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
