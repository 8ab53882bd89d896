import type { Family } from './family.ts'

/** It reads pages. Images are shown as a whole and in tiles. */
export const deepSeekOcr: Family = {
  title: 'DeepSeek-OCR',
  projectors: ['deepseekocr', 'deepseekocr2'],
  architectures: [],
  image: null,
  video: null,
  dialect: null,
  toolSyntax: null,
  thought: null,
}
