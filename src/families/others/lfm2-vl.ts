import { type Family, PLAIN } from '../family.ts'

/** It has no notation for places. */
export const lfm2Vl: Family = {
  ...PLAIN,
  title: 'LFM2-VL',
  projectors: ['lfm2'],
  // libmtmd's fixed numbers, which are those of its own processor.
  image: { patchSize: 16, mergeSize: 2, minTokens: 64, tiles: { grid: 'large', side: 512, most: 10 } },
}

/** It was trained to find things, and its files have the marks of LFM2-VL. */
export const lfm25Vl: Family = {
  ...lfm2Vl,
  title: 'LFM2.5-VL',
  is: ({ name }) => /lfm[-_ ]?2[._]5/i.test(name),
  dialect: 'lfm2.5-vl',
}
