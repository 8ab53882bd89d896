import type { Family } from './family.ts'

/** Images are cut into tiles. It has no notation for where things are. */
export const smolVlm: Family = {
  title: 'SmolVLM, Idefics 3',
  projectors: ['idefics3'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
