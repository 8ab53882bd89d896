import type { Family } from './family.ts'

/** It has no notation for where things are. */
export const phi4: Family = {
  title: 'Phi-4 multimodal',
  projectors: ['phi4'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
