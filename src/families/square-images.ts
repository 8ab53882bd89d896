import { type Family, PLAIN } from './family.ts'

// Families whose images become one square, and of which no notation for places is known here.

/** A token stands at either end of an image. Its language model is GLM's. */
export const glmEdge: Family = {
  ...PLAIN,
  title: 'GLM-Edge-V',
  projectors: ['adapter'],
  image: { patchSize: 14, mergeSize: 2, minTokens: 576, maxTokens: 576, square: true },
}

/** A token stands at either end of an image. */
export const cogVlm: Family = {
  ...PLAIN,
  title: 'CogVLM 2',
  projectors: ['cogvlm'],
  image: { patchSize: 14, mergeSize: 1, minTokens: 1225, maxTokens: 1225, square: true },
}

/** It sees; the images that the original makes are not made here. */
export const janusPro: Family = {
  ...PLAIN,
  title: 'Janus-Pro',
  projectors: ['janus_pro'],
  image: { patchSize: 16, mergeSize: 1, minTokens: 576, maxTokens: 576, square: true },
}

/** Its own processor cuts images into tiles, and libmtmd shows one square. */
export const nemotronVl: Family = {
  ...PLAIN,
  title: 'Nemotron Nano V2 VL',
  projectors: ['nemotron_v2_vl'],
  image: { patchSize: 16, mergeSize: 2, minTokens: 256, maxTokens: 256, square: true },
}

/** A convolutional encoder that is pooled to 8 x 8 tokens. Its own processor cuts images into tiles. */
export const rekaEdge: Family = {
  ...PLAIN,
  title: 'Reka Edge',
  projectors: ['yasa2'],
  image: { patchSize: 64, mergeSize: 1, minTokens: 64, maxTokens: 64, square: true, along: 8 },
}
