import type { Family } from './family.ts'

/** llama.cpp has no projector for it. It points, and draws no boxes. */
export const molmo: Family = {
  title: 'Molmo',
  projectors: [],
  architectures: [],
  image: null,
  video: null,
  dialect: 'molmo',
  toolSyntax: null,
  thought: null,
}
