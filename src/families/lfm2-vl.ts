import type { Family } from './family.ts'

/** Large images are cut into tiles. It has no notation for where things are. */
export const lfm2Vl: Family = {
  title: 'LFM2-VL',
  projectors: ['lfm2'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
