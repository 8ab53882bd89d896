import type { Dialect } from '../dialect.ts'
import { deepSeekOcr } from './deepseek-ocr.ts'
import { dotsOcr } from './dots-ocr.ts'
import { gemma } from './gemma.ts'
import { glm4v } from './glm4v.ts'
import { internVl } from './internvl.ts'
import { lfm25Vl } from './lfm2.5-vl.ts'
import { lightOnOcr } from './lighton-ocr.ts'
import { markup } from './markup.ts'
import { miniCpmV } from './minicpm-v.ts'
import { mistralLarge4 } from './mistral-large-4.ts'
import { molmo } from './molmo.ts'
import { molmo2 } from './molmo2.ts'
import { paligemma } from './paligemma.ts'
import { qwen3Vl, qwen25Vl } from './qwen.ts'

/** Every dialect by the name that model cards know it by. */
export const DIALECTS = {
  markup,
  'qwen3-vl': qwen3Vl,
  'qwen2.5-vl': qwen25Vl,
  gemma,
  molmo,
  paligemma,
  internvl: internVl,
  'minicpm-v': miniCpmV,
  glm4v,
  'lfm2.5-vl': lfm25Vl,
  molmo2,
  'deepseek-ocr': deepSeekOcr,
  'dots-ocr': dotsOcr,
  'lighton-ocr': lightOnOcr,
  'mistral-large-4': mistralLarge4,
} as const satisfies Readonly<Record<string, Dialect>>
export type DialectName = keyof typeof DIALECTS
