import type { Family } from './family.ts'

/** Many makers use this projector; how an image is cut differs between their models. Moondream's boxes come from parts that llama.cpp does not have. */
export const llava: Family = {
  title: 'LLaVA and others with its projector',
  projectors: ['mlp'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
