import type { Family } from './family.ts'

/** Images are cut into tiles. Files of other makers' models have the architecture `llama` too, so it tells nothing. */
export const llama: Family = {
  title: 'Llama 3.1 and later',
  projectors: ['llama4'],
  architectures: ['llama4'],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: 'llama3',
  thought: null,
}
