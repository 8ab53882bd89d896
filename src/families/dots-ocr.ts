import type { Family } from './family.ts'

/** It reads pages, and has no notation for where other things are. */
export const dotsOcr: Family = {
  title: 'dots.ocr',
  projectors: ['dots_ocr'],
  architectures: [],
  // Its files say how many tokens.
  image: { patchSize: 14, mergeSize: 2 },
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
