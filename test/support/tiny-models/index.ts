import { gemma3, gemma3Large } from './gemma.ts'
import { llava } from './llava.ts'
import { pixtral } from './pixtral.ts'
import { qwen2Vl, qwen3Vl, qwen3VlMoe, qwen25Vl } from './qwen.ts'
import { internVl, lfm2Vl, smolVlm } from './tiles.ts'
import type { TinyModel } from './tiny-model.ts'

/** One model for each family, or for each way of computing within one. */
export const TINY_MODELS: readonly TinyModel[] = [
  ...[qwen2Vl, qwen25Vl, qwen3Vl, qwen3VlMoe, gemma3, gemma3Large, pixtral, llava, internVl, smolVlm, lfm2Vl],
]

export { type PictureSize, type TinyModel, writeTinyModel } from './tiny-model.ts'
