import { upTo } from '../numbers.ts'
import { listedBoxes, refBoxDialect } from './ref-box.ts'

const MOST = 999

/**
 * DeepSeek-OCR: `<|ref|>title<|/ref|><|det|>[[115, 80, 365, 113]]<|/det|>`: left, top, right, bottom on a grid of 0..999.
 * The question is its makers'. https://github.com/deepseek-ai/DeepSeek-OCR (README; run_dpsk_ocr_image.py)
 */
export const deepSeekOcr = refBoxDialect({
  marks: ['<|ref|>', '<|/ref|>', '<|det|>', '<|/det|>'],
  most: MOST,
  ...listedBoxes(upTo(MOST)),
  nameless: false,
  question: (labels) =>
    labels === null
      ? '<|grounding|>Given the layout of the image.'
      : `Locate ${labels.map((label) => `<|ref|>${label}<|/ref|>`).join(', ')} in the image.`,
})
