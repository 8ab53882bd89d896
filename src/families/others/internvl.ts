import { type Family, PLAIN } from '../family.ts'

/** Boxes refer to the whole image. Its language models are from several families, each with its own tool calls. */
export const internVl: Family = {
  ...PLAIN,
  title: 'InternVL',
  projectors: ['internvl'],
  // The number and size of tiles are those of its own processor and its files.
  image: { patchSize: 14, mergeSize: 2, tiles: { grid: 'nearest', most: 12 } },
  dialect: 'internvl',
}
