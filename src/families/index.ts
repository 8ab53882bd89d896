import { deepSeekOcr } from './deepseek-ocr.ts'
import { dotsOcr } from './dots-ocr.ts'
import type { Family } from './family.ts'
import { gemma3 } from './gemma3.ts'
import { gemma3n } from './gemma3n.ts'
import { gemma4 } from './gemma4.ts'
import { glm4v } from './glm4v.ts'
import { hunyuanVl } from './hunyuan-vl.ts'
import { internVl } from './internvl.ts'
import { kimiVl } from './kimi-vl.ts'
import { lfm2Vl } from './lfm2-vl.ts'
import { lightOnOcr } from './lighton-ocr.ts'
import { llama } from './llama.ts'
import { llava } from './llava.ts'
import { lookout } from './lookout.ts'
import { miniCpmV } from './minicpm-v.ts'
import { mistral } from './mistral.ts'
import { molmo } from './molmo.ts'
import { paddleOcr } from './paddle-ocr.ts'
import { paligemma } from './paligemma.ts'
import { phi4 } from './phi4.ts'
import { qwen25Omni } from './qwen2.5-omni.ts'
import { qwen25Vl } from './qwen2.5-vl.ts'
import { qwen2Audio } from './qwen2-audio.ts'
import { qwen2Vl } from './qwen2-vl.ts'
import { qwen35 } from './qwen3.5.ts'
import { qwen3Vl } from './qwen3-vl.ts'
import { smolVlm } from './smolvlm.ts'
import { ultravox } from './ultravox.ts'
import { voxtral } from './voxtral.ts'

/** Every family by the name that model cards know it by. */
export const FAMILIES = {
  lookout,
  'qwen3.5': qwen35,
  'qwen3-vl': qwen3Vl,
  'qwen2.5-vl': qwen25Vl,
  'qwen2.5-omni': qwen25Omni,
  'qwen2-vl': qwen2Vl,
  gemma4,
  gemma3,
  gemma3n,
  paligemma,
  mistral,
  llama,
  internvl: internVl,
  smolvlm: smolVlm,
  molmo,
  'deepseek-ocr': deepSeekOcr,
  'dots-ocr': dotsOcr,
  glm4v,
  'hunyuan-vl': hunyuanVl,
  'kimi-vl': kimiVl,
  'lfm2-vl': lfm2Vl,
  'lighton-ocr': lightOnOcr,
  llava,
  'minicpm-v': miniCpmV,
  'paddle-ocr': paddleOcr,
  phi4,
  'qwen2-audio': qwen2Audio,
  ultravox,
  voxtral,
} as const satisfies Readonly<Record<string, Family>>
export type FamilyName = keyof typeof FAMILIES
export const FAMILY_NAMES = Object.keys(FAMILIES) as [FamilyName, ...FamilyName[]]

export { type AudioRule, audioRule } from './audio-encoders.ts'
export { DECIDES_BY_LETTERS, type DecisionForms } from './decision-forms.ts'
export { type Family, type ImageRule, type ThoughtMarks, USUAL_THOUGHT, type VideoRule } from './family.ts'
export { TOOL_MARKS, TOOL_SYNTAX_NAMES, type ToolSyntaxName } from './tool-syntax.ts'
export { TIMED_PAIRS, type VideoLayout } from './video-layout.ts'
