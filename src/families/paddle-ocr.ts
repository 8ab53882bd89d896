import { type Family, PLAIN } from './family.ts'

/** It reads pages, and has no notation for where other things are. */
export const paddleOcr: Family = {
  ...PLAIN,
  title: 'PaddleOCR-VL',
  projectors: ['paddleocr'],
  // Its files say how many tokens.
  image: { patchSize: 14, mergeSize: 2 },
}
