import type { Dialect } from '../dialect.ts'
import { gemma } from './gemma.ts'
import { glm4v } from './glm4v.ts'
import { internVl } from './internvl.ts'
import { markup } from './markup.ts'
import { miniCpmV } from './minicpm-v.ts'
import { molmo } from './molmo.ts'
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
} as const satisfies Readonly<Record<string, Dialect>>
export type DialectName = keyof typeof DIALECTS
