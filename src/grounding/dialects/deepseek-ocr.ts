import { upTo } from '../numbers.ts'
import { refBoxDialect } from './ref-box.ts'

const MOST = 999
const NUMBER = upTo(MOST)
const BOX = `\\[${NUMBER}(?:, ${NUMBER}){3}\\]`
const SPACE = '[ \\t]*'
const WRITTEN_NUMBER = `${SPACE}\\d{1,4}(?:\\.\\d{1,4})?${SPACE}`
const WRITTEN_BOX = `${SPACE}\\[${WRITTEN_NUMBER}(?:,${WRITTEN_NUMBER}){3}\\]${SPACE}`

/**
 * DeepSeek-OCR: `<|ref|>title<|/ref|><|det|>[[115, 80, 365, 113]]<|/det|>`: left, top, right, bottom on a grid of 0..999.
 * The question is its makers'. https://github.com/deepseek-ai/DeepSeek-OCR (README; run_dpsk_ocr_image.py)
 */
export const deepSeekOcr = refBoxDialect({
  marks: ['<|ref|>', '<|/ref|>', '<|det|>', '<|/det|>'],
  most: MOST,
  boxes: `\\[${BOX}(?:, ${BOX})*\\]`,
  writtenBoxes: `${SPACE}\\[${WRITTEN_BOX}(?:,${WRITTEN_BOX})*\\]${SPACE}`,
  write: (box) => `[[${box.join(', ')}]]`,
  nameless: false,
  question: (labels) =>
    labels === null
      ? '<|grounding|>Given the layout of the image.'
      : `Locate ${labels.map((label) => `<|ref|>${label}<|/ref|>`).join(', ')} in the image.`,
})
