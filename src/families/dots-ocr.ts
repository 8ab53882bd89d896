import { type Family, PLAIN } from './family.ts'

/** It reads pages. */
export const dotsOcr: Family = {
  ...PLAIN,
  title: 'dots.ocr',
  projectors: ['dots_ocr'],
  // Its files say how many tokens.
  image: { patchSize: 14, mergeSize: 2 },
  dialect: 'dots-ocr',
}

/** In which space it gives coordinates is not known here. */
export const dots3Note: Family = {
  ...PLAIN,
  title: 'dots3-note',
  projectors: ['dots3note_v'],
  image: { patchSize: 14, mergeSize: 2 },
}
