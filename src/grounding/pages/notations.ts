import { deepSeekOcrPage } from './deepseek-ocr.ts'
import { dotsOcrPage } from './dots-ocr.ts'
import { lightOnOcrPage, markdownPage } from './markdown.ts'
import type { PageNotation } from './page.ts'
import { qwen3VlPage, qwen25VlPage } from './qwen.ts'

/** The notations in which models write pages, by their names in families. */
export const PAGE_NOTATIONS = {
  markdown: markdownPage,
  'dots-ocr': dotsOcrPage,
  'deepseek-ocr': deepSeekOcrPage,
  'lighton-ocr': lightOnOcrPage,
  'qwen3-vl': qwen3VlPage,
  'qwen2.5-vl': qwen25VlPage,
} as const satisfies Readonly<Record<string, PageNotation>>
export type PageNotationName = keyof typeof PAGE_NOTATIONS
