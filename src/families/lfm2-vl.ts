import type { Family } from './family.ts'

/** It has no notation for where things are. */
export const lfm2Vl: Family = {
  title: 'LFM2-VL',
  projectors: ['lfm2'],
  architectures: [],
  // The numbers are fixed in libmtmd, and are those of its own processor.
  image: { patchSize: 16, mergeSize: 2, minTokens: 64, tiles: { grid: 'large', side: 512, most: 10 } },
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
