import { type Family, PLAIN } from '../family.ts'

/** Boxes refer to the whole image. Its language models come from several families, which call tools each in their own way. */
export const internVl: Family = {
  ...PLAIN,
  title: 'InternVL',
  projectors: ['internvl'],
  // The tiles' number and size are those of its own processor, and of its files.
  image: { patchSize: 14, mergeSize: 2, tiles: { grid: 'nearest', most: 12 } },
  dialect: 'internvl',
}
