import type { Family } from './family.ts'
import { gemma3 } from './gemma3.ts'
import { gemma4 } from './gemma4.ts'
import { internVl } from './internvl.ts'
import { llama } from './llama.ts'
import { lookout } from './lookout.ts'
import { mistral } from './mistral.ts'
import { molmo } from './molmo.ts'
import { paligemma } from './paligemma.ts'
import { qwen25Vl } from './qwen2.5-vl.ts'
import { qwen2Vl } from './qwen2-vl.ts'
import { qwen35 } from './qwen3.5.ts'
import { qwen3Vl } from './qwen3-vl.ts'
import { smolVlm } from './smolvlm.ts'

/** Every family by the name that model cards know it by. */
export const FAMILIES = {
  lookout,
  'qwen3.5': qwen35,
  'qwen3-vl': qwen3Vl,
  'qwen2.5-vl': qwen25Vl,
  'qwen2-vl': qwen2Vl,
  gemma4,
  gemma3,
  paligemma,
  mistral,
  llama,
  internvl: internVl,
  smolvlm: smolVlm,
  molmo,
} as const satisfies Readonly<Record<string, Family>>
export type FamilyName = keyof typeof FAMILIES
export const FAMILY_NAMES = Object.keys(FAMILIES) as [FamilyName, ...FamilyName[]]

export type { Family, ImageRule, ThoughtMarks, VideoRule } from './family.ts'
export { TOOL_SYNTAX_NAMES, type ToolSyntaxName } from './tool-syntax.ts'
export { TIMED_PAIRS, type VideoLayout } from './video-layout.ts'
