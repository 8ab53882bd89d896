import type { Dialect } from '../dialect.ts'
import { gemma } from './gemma.ts'
import { internVl } from './internvl.ts'
import { markup } from './markup.ts'
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
} as const satisfies Readonly<Record<string, Dialect>>
export type DialectName = keyof typeof DIALECTS
