import type { Family } from '../family.ts'
import { glm4v } from '../others/glm4v.ts'

/** Embeddings of GLM-4.1V and later have 4,096 dimensions or more. */
const NARROW = 2048

/**
 * It reads pages and parts of pages, and finds nothing: another model does its layout. Its files have the marks of
 * GLM-4.1V. https://github.com/zai-org/GLM-OCR
 */
export const glmOcr: Family = {
  ...glm4v,
  title: 'GLM-OCR',
  is: ({ name, width }) => /glm[-_ ]?ocr/i.test(name) || (width !== null && width < NARROW),
  dialect: null,
  reading: { prompt: '\nText Recognition:', notation: 'markdown' },
}
