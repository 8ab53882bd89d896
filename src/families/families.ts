import { exaone45, kimiK25, kimiVl, mimoVl, miniMaxVl, museGlimmer, paddleOcr, phi4, youtuVl } from './any-aspect.ts'
import type { Family } from './family.ts'
import { gemma3 } from './gemma/gemma3.ts'
import { gemma3n } from './gemma/gemma3n.ts'
import { gemma4 } from './gemma/gemma4.ts'
import { paligemma } from './gemma/paligemma.ts'
import {
  glmAsr,
  graniteSpeech,
  lfm2Audio,
  meralion,
  musicFlamingo,
  qwen2Audio,
  qwen3Asr,
  ultravox,
  voxtral,
} from './hearing.ts'
import { glm4v } from './others/glm4v.ts'
import { graniteVision } from './others/granite-vision.ts'
import { hunyuanVl } from './others/hunyuan-vl.ts'
import { internVl } from './others/internvl.ts'
import { isaac } from './others/isaac.ts'
import { lfm2Vl, lfm25Vl } from './others/lfm2-vl.ts'
import { llama } from './others/llama.ts'
import { llava, mobileVlm } from './others/llava.ts'
import { lookout } from './others/lookout.ts'
import { miniCpmV, miniCpmV46 } from './others/minicpm-v.ts'
import { mistral } from './others/mistral.ts'
import { mistralLarge4 } from './others/mistral-large4.ts'
import { molmo, molmo2 } from './others/molmo.ts'
import { smolVlm } from './others/smolvlm.ts'
import { step3Vl } from './others/step3-vl.ts'
import { qwen25Omni } from './qwen/qwen2.5-omni.ts'
import { qwen25Vl } from './qwen/qwen2.5-vl.ts'
import { qwen2Vl } from './qwen/qwen2-vl.ts'
import { qwen35 } from './qwen/qwen3.5.ts'
import { qwen3Vl } from './qwen/qwen3-vl.ts'
import { qwen4 } from './qwen/qwen4.ts'
import { deepSeekOcr, deepSeekOcr2, unlimitedOcr } from './readers/deepseek-ocr.ts'
import { dots3Note, dotsOcr } from './readers/dots-ocr.ts'
import { glmOcr } from './readers/glm-ocr.ts'
import { lightOnOcr, lightOnOcrBbox } from './readers/lighton-ocr.ts'
import { cogVlm, glmEdge, janusPro, nemotronVl, rekaEdge } from './square-images.ts'

/** Every family, by its name in model cards. */
export const FAMILIES = {
  lookout,
  'qwen3.5': qwen35,
  qwen4,
  'qwen3-vl': qwen3Vl,
  'qwen2.5-vl': qwen25Vl,
  'qwen2.5-omni': qwen25Omni,
  'qwen2-vl': qwen2Vl,
  gemma4,
  gemma3,
  gemma3n,
  paligemma,
  mistral,
  'mistral-large-4': mistralLarge4,
  llama,
  internvl: internVl,
  isaac,
  smolvlm: smolVlm,
  molmo,
  molmo2,
  cogvlm: cogVlm,
  'deepseek-ocr': deepSeekOcr,
  'deepseek-ocr-2': deepSeekOcr2,
  'dots-ocr': dotsOcr,
  'dots3-note': dots3Note,
  'exaone-4.5': exaone45,
  glm4v,
  'glm-ocr': glmOcr,
  'glm-edge': glmEdge,
  'granite-vision': graniteVision,
  'hunyuan-vl': hunyuanVl,
  'janus-pro': janusPro,
  'kimi-vl': kimiVl,
  'kimi-k2.5': kimiK25,
  'lfm2-vl': lfm2Vl,
  'lfm2.5-vl': lfm25Vl,
  'lighton-ocr': lightOnOcr,
  'lighton-ocr-bbox': lightOnOcrBbox,
  llava,
  mobilevlm: mobileVlm,
  'mimo-vl': mimoVl,
  'minicpm-v': miniCpmV,
  'minicpm-v-4.6': miniCpmV46,
  'minimax-m3': miniMaxVl,
  'muse-glimmer': museGlimmer,
  'nemotron-vl': nemotronVl,
  'paddle-ocr': paddleOcr,
  phi4,
  'reka-edge': rekaEdge,
  'step3-vl': step3Vl,
  'unlimited-ocr': unlimitedOcr,
  'youtu-vl': youtuVl,
  'glm-asr': glmAsr,
  'granite-speech': graniteSpeech,
  'lfm2-audio': lfm2Audio,
  meralion,
  'music-flamingo': musicFlamingo,
  'qwen2-audio': qwen2Audio,
  'qwen3-asr': qwen3Asr,
  ultravox,
  voxtral,
} as const satisfies Readonly<Record<string, Family>>
export type FamilyName = keyof typeof FAMILIES
export const FAMILY_NAMES = Object.keys(FAMILIES) as [FamilyName, ...FamilyName[]]
