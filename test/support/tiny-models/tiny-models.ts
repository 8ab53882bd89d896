import { gemma3, gemma3Large, gemma4 } from './gemma.ts'
import { glm4v } from './glm.ts'
import { qwen2Audio, ultravox, voxtral } from './hearing.ts'
import { llava } from './llava.ts'
import { miniCpmV, miniCpmV46 } from './minicpm.ts'
import { mistral3, pixtral } from './pixtral.ts'
import { qwen2Vl, qwen3Vl, qwen3VlMoe, qwen25Vl, qwen35 } from './qwen.ts'
import { internVl, lfm2Vl, smolVlm } from './tiles.ts'
import type { TinyModel } from './tiny-model.ts'

/** One model for each family, or for each way of computing within one. */
export const TINY_MODELS: readonly TinyModel[] = [
  ...[
    qwen2Vl,
    qwen25Vl,
    qwen3Vl,
    qwen3VlMoe,
    qwen35,
    gemma3,
    gemma3Large,
    gemma4,
    glm4v,
    pixtral,
    mistral3,
    llava,
    internVl,
  ],
  ...[smolVlm, lfm2Vl, miniCpmV, miniCpmV46, voxtral, ultravox, qwen2Audio],
]
