import type { Family } from './family.ts'

/** Many makers use this projector. Moondream's boxes come from parts that llama.cpp does not have. */
export const llava: Family = {
  title: 'LLaVA and others with its projector',
  projectors: ['mlp'],
  architectures: [],
  // LLaVA 1.5; files of LLaVA-NeXT list grids. libmtmd pads what is not square or not of a grid's size, and a place on the
  // image would be another one on what the model sees. So images are stretched.
  image: { patchSize: 14, mergeSize: 1, minTokens: 576, maxTokens: 576, square: true, tiles: { grid: 'listed' } },
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
