import type { Family } from './family.ts'

/**
 * Images are cut into up to 12 tiles of 448 pixels; boxes refer to the whole image. Its
 * language models come from several families, which call tools each in their own way.
 */
export const internVl: Family = {
  title: 'InternVL',
  projectors: ['internvl'],
  architectures: [],
  image: null,
  video: null,
  dialect: 'internvl',
  toolSyntax: null,
  thought: null,
}
