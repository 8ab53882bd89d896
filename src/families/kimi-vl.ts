import { type Family, PLAIN } from './family.ts'

/** Its users see coordinates from 0 to 1, its makers do not say: nothing is read here. */
export const kimiVl: Family = {
  ...PLAIN,
  title: 'Kimi-VL',
  projectors: ['kimivl'],
  // The limits are llama.cpp's.
  image: { patchSize: 14, mergeSize: 2, minTokens: 8, maxTokens: 1024 },
}

export const kimiK25: Family = {
  ...kimiVl,
  title: 'Kimi K2.5, GLM-5.2-V',
  projectors: ['kimik25'],
  // llama.cpp's limits, for files that have none.
  image: { patchSize: 14, mergeSize: 2, minTokens: 2, maxTokens: 4096 },
}
