import type { Family } from './family.ts'

/** llama.cpp has no projector for it. It is no chat model: it detects. */
export const paligemma: Family = {
  title: 'PaliGemma',
  projectors: [],
  architectures: [],
  image: null,
  video: null,
  dialect: 'paligemma',
  toolSyntax: null,
  thought: null,
}
