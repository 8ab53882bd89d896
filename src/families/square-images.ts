import { type Family, PLAIN } from './family.ts'

// Families whose images become one square, and without a known notation for places.

/** There is a token at each end of an image. Its language model is GLM. */
export const glmEdge: Family = {
  ...PLAIN,
  title: 'GLM-Edge-V',
  projectors: ['adapter'],
  image: { patchSize: 14, mergeSize: 2, minTokens: 576, maxTokens: 576, square: true },
}

/** There is a token at each end of an image. */
export const cogVlm: Family = {
  ...PLAIN,
  title: 'CogVLM 2',
  projectors: ['cogvlm'],
  image: { patchSize: 14, mergeSize: 1, minTokens: 1225, maxTokens: 1225, square: true },
}

/** Only image input: the images that the original generates are not supported. */
export const janusPro: Family = {
  ...PLAIN,
  title: 'Janus-Pro',
  projectors: ['janus_pro'],
  image: { patchSize: 16, mergeSize: 1, minTokens: 576, maxTokens: 576, square: true },
}

/** Its own processor cuts images into tiles; libmtmd shows one square. */
export const nemotronVl: Family = {
  ...PLAIN,
  title: 'Nemotron Nano V2 VL',
  projectors: ['nemotron_v2_vl'],
  image: { patchSize: 16, mergeSize: 2, minTokens: 256, maxTokens: 256, square: true },
}

/** A convolutional encoder, pooled to 8 x 8 tokens. Its own processor cuts images into tiles. */
export const rekaEdge: Family = {
  ...PLAIN,
  title: 'Reka Edge',
  projectors: ['yasa2'],
  image: { patchSize: 64, mergeSize: 1, minTokens: 64, maxTokens: 64, square: true, along: 8 },
}
