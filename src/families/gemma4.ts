import type { Family } from './family.ts'

export const gemma4: Family = {
  title: 'Gemma 4',
  projectors: ['gemma4v', 'gemma4uv'],
  architectures: ['gemma4'],
  // llama.cpp's limits, around the third of the five sizes that it was trained with (70 to 1,120 tokens). Tokens of one image
  // attend to each other in both directions, so an image must fit into one batch of 512.
  image: { patchSize: 16, mergeSize: 3, minTokens: 252, maxTokens: 280 },
  video: null,
  dialect: 'gemma',
  toolSyntax: 'gemma4',
  thought: null,
}
