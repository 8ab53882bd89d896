import { type Family, PLAIN } from '../family.ts'

/** It reads pages. */
export const lightOnOcr: Family = {
  ...PLAIN,
  title: 'LightOnOCR',
  projectors: ['lightonocr'],
  image: { patchSize: 14, mergeSize: 2, minTokens: 1, longestEdge: 'always' },
  reading: { prompt: '', notation: 'lighton-ocr' },
}

/** The variants that also write the places of a page's figures. */
export const lightOnOcrBbox: Family = {
  ...lightOnOcr,
  title: 'LightOnOCR-2 bbox',
  is: ({ name }) => /bbox/i.test(name),
  dialect: 'lighton-ocr',
}
