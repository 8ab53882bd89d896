import type { Family } from './family.ts'

/** It hears, and does not see. */
export const qwen2Audio: Family = {
  title: 'Qwen2-Audio',
  projectors: ['qwen2a'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
