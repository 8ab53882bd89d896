import type { Family } from './family.ts'

/** It hears, and does not see. */
export const voxtral: Family = {
  title: 'Voxtral',
  projectors: ['voxtral'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
