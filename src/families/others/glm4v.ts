import { type Family, PLAIN } from '../family.ts'

export const glm4v: Family = {
  ...PLAIN,
  title: 'GLM-4.1V and later',
  projectors: ['glm4v'],
  // llama.cpp's limits.
  image: { patchSize: 14, mergeSize: 2, minTokens: 8, maxTokens: 4096 },
  dialect: 'glm4v',
}
