import { type Family, PLAIN } from '../family.ts'

export const miniCpmV: Family = {
  ...PLAIN,
  title: 'MiniCPM-V, MiniCPM-o',
  projectors: ['resampler'],
  // libmtmd's fixed limit of nine slices. A resampler has no merge size.
  image: { patchSize: 14, mergeSize: 4, tiles: { grid: 'slices', most: 9 } },
  dialect: 'minicpm-v',
}

export const miniCpmV46: Family = {
  ...miniCpmV,
  title: 'MiniCPM-V 4.6',
  projectors: ['minicpmv4_6'],
  warning:
    'MiniCPM-V 4.6 is taken to write places as version 4.5 does, which its makers do not say: compare some with the images first',
}
