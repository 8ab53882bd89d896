import { type Family, PLAIN } from '../family.ts'

/** Many makers use this projector. Moondream's boxes come from parts that llama.cpp lacks. */
export const llava: Family = {
  ...PLAIN,
  title: 'LLaVA and others with its projector',
  projectors: ['mlp'],
  // LLaVA 1.5; files of LLaVA-NeXT list grids. libmtmd pads images that are not square or not of a grid's size, which
  // would shift places on the image. So images are stretched.
  image: { patchSize: 14, mergeSize: 1, minTokens: 576, maxTokens: 576, square: true, tiles: { grid: 'listed' } },
}

/** Its projector halves LLaVA's rows and columns. */
export const mobileVlm: Family = {
  ...llava,
  title: 'MobileVLM',
  projectors: ['ldp', 'ldpv2'],
  image: { patchSize: 14, mergeSize: 2, minTokens: 144, maxTokens: 144, square: true, tiles: { grid: 'listed' } },
}
