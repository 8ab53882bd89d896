import type { Family } from './family.ts'

export const glm4v: Family = {
  title: 'GLM-4.1V and later',
  projectors: ['glm4v'],
  architectures: [],
  // The limits are llama.cpp's.
  image: { patchSize: 14, mergeSize: 2, minTokens: 8, maxTokens: 4096 },
  video: null,
  dialect: 'glm4v',
  toolSyntax: null,
  thought: null,
}
