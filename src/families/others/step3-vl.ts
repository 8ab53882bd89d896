import { type Family, PLAIN } from '../family.ts'

export const step3Vl: Family = {
  ...PLAIN,
  title: 'Step3-VL',
  projectors: ['step3vl'],
  // A square of 728 pixels in 13 x 13 tokens; in larger images, tiles of 504 pixels in 9 x 9 precede it.
  image: { patchSize: 14, mergeSize: 4, tiles: { grid: 'windows', side: 504, along: 6 } },
}
