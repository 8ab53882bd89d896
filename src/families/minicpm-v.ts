import type { Family } from './family.ts'

export const miniCpmV: Family = {
  title: 'MiniCPM-V',
  projectors: ['resampler', 'minicpmv4_6'],
  architectures: [],
  // Nine slices at most are fixed in libmtmd. The merge is that of version 4.6: a resampler has none.
  image: { patchSize: 14, mergeSize: 4, tiles: { grid: 'slices', most: 9 } },
  video: null,
  dialect: 'minicpm-v',
  toolSyntax: null,
  thought: null,
}
