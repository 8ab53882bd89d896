import { type Family, PLAIN } from './family.ts'

// Families whose images keep their aspect ratio, and without a known notation for places.

export const exaone45: Family = {
  ...PLAIN,
  title: 'EXAONE 4.5',
  projectors: ['exaone4_5'],
  // The number of tokens comes from its files.
  image: { patchSize: 14, mergeSize: 2 },
}

/** Its users report coordinates from 0 to 1, and its makers document none: no places are read. */
export const kimiVl: Family = {
  ...PLAIN,
  title: 'Kimi-VL',
  projectors: ['kimivl'],
  // llama.cpp's limits.
  image: { patchSize: 14, mergeSize: 2, minTokens: 8, maxTokens: 1024 },
}

export const kimiK25: Family = {
  ...kimiVl,
  title: 'Kimi K2.5, GLM-5.2-V',
  projectors: ['kimik25'],
  // llama.cpp's limits, for files without any.
  image: { patchSize: 14, mergeSize: 2, minTokens: 2, maxTokens: 4096 },
}

export const mimoVl: Family = {
  ...PLAIN,
  title: 'MiMo-V2.5',
  projectors: ['mimovl'],
  // The number of tokens comes from its files.
  image: { patchSize: 16, mergeSize: 2 },
}

export const miniMaxVl: Family = {
  ...PLAIN,
  title: 'MiniMax-M3',
  projectors: ['minimax_m3'],
  // llama.cpp's limits; the maximum is that of a square of 672 pixels.
  image: { patchSize: 14, mergeSize: 2, minTokens: 8, maxTokens: 576 },
}

export const museGlimmer: Family = {
  ...PLAIN,
  title: 'Muse Glimmer',
  projectors: ['muse-glimmer'],
  // llama.cpp's limits.
  image: { patchSize: 14, mergeSize: 2, minTokens: 1, maxTokens: 4096 },
}

/** It reads pages, and has no notation for the places of other things. */
export const paddleOcr: Family = {
  ...PLAIN,
  title: 'PaddleOCR-VL',
  projectors: ['paddleocr'],
  reading: { prompt: 'OCR:', notation: 'markdown' },
  // The number of tokens comes from its files.
  image: { patchSize: 14, mergeSize: 2 },
}

/** It has no notation for places. */
export const phi4: Family = {
  ...PLAIN,
  title: 'Phi-4 vision',
  projectors: ['phi4'],
  // The number of tokens comes from its files.
  image: { patchSize: 16, mergeSize: 1 },
}

export const youtuVl: Family = {
  ...PLAIN,
  title: 'Youtu-VL',
  projectors: ['youtuvl'],
  // llama.cpp would accept 62,500 tokens; no other family's encoder gets more than 16,384.
  image: { patchSize: 16, mergeSize: 2, minTokens: 1, maxTokens: 4096 },
}
