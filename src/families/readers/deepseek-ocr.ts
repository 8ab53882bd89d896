import { type Family, PLAIN } from '../family.ts'

/** It reads pages. Images are shown whole and in tiles; libmtmd pads the whole image as the makers' processor does. */
export const deepSeekOcr: Family = {
  ...PLAIN,
  title: 'DeepSeek-OCR',
  projectors: ['deepseekocr'],
  // A row of tiles has 10 more tokens for its 10 rows of squares. The whole image has 16 x 16, one after each row, and
  // one more.
  image: {
    patchSize: 16,
    mergeSize: 4,
    fixed: true,
    tiles: { grid: 'nearest', side: 640, tokens: 110, whole: 273, least: 2, most: 9 },
  },
  dialect: 'deepseek-ocr',
  reading: { prompt: '\n<|grounding|>Convert the document to markdown.', notation: 'deepseek-ocr' },
}

export const deepSeekOcr2: Family = {
  ...deepSeekOcr,
  title: 'DeepSeek-OCR 2',
  projectors: ['deepseekocr2'],
  image: {
    patchSize: 16,
    mergeSize: 4,
    fixed: true,
    tiles: { grid: 'nearest', side: 768, tokens: 144, whole: 257, least: 2, most: 6 },
  },
}

/** Its files have the marks of DeepSeek-OCR. It puts names and places into one tag, which is not supported. */
export const unlimitedOcr: Family = {
  ...deepSeekOcr,
  title: 'Unlimited-OCR',
  is: ({ name }) => /unlimited[-_ ]?ocr/i.test(name),
  dialect: null,
  reading: { prompt: '\nFree OCR.', notation: 'markdown' },
}
