import { type Family, PLAIN } from '../family.ts'

/** An image becomes a small copy of the whole and a grid of tiles, however small it is. */
export const graniteVision: Family = {
  ...PLAIN,
  title: 'Granite 4 Vision',
  projectors: ['granite4_vision'],
  // The projector halves rows and columns: windows of 8 x 8 patches become 4 x 4 tokens. Each row of tokens has one
  // more.
  image: { patchSize: 16, mergeSize: 2, tiles: { grid: 'listed', always: true } },
}
