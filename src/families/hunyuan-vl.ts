import type { Family } from './family.ts'

/** A token ends every row of an image. */
export const hunyuanVl: Family = {
  title: 'HunyuanVL, HunyuanOCR',
  projectors: ['hunyuanvl'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
