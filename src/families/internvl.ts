import type { Family } from './family.ts'

/**
 * Images are cut into up to 12 tiles of 448 pixels. Boxes are `<ref>…</ref><box>[[…]]</box>`, which is not read here. Its
 * language models come from several families, which call tools each in their own way.
 */
export const internVl: Family = {
  title: 'InternVL',
  projectors: ['internvl'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
