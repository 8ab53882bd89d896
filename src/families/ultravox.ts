import type { Family } from './family.ts'

/** It hears, and does not see. Its language models come from several families. */
export const ultravox: Family = {
  title: 'Ultravox',
  projectors: ['ultravox'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
