import type { ModelShape } from './model-shape.ts'
import type { Weight } from './safetensors.ts'
import type { SourceFile } from './source-file.ts'

const LAYER = 'model.language_model.layers'
/** llama.cpp's names of a layer's tensors, and those of Transformers. */
const LAYER_PARTS = {
  attn_norm: 'input_layernorm',
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_q_norm: 'self_attn.q_norm',
  attn_k_norm: 'self_attn.k_norm',
  attn_output: 'self_attn.o_proj',
  ffn_norm: 'post_attention_layernorm',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
}

/**
 * The language model of `Qwen3VLForConditionalGeneration`.
 * @throws Error for a missing tensor.
 */
export function languageWeights(source: SourceFile, { language }: ModelShape): Weight[] {
  const weights = [
    source.take('token_embd.weight', 'model.language_model.embed_tokens.weight'),
    source.take('output_norm.weight', 'model.language_model.norm.weight'),
  ]
  if (source.hasTensor('output.weight')) weights.push(source.take('output.weight', 'lm_head.weight'))
  for (let layer = 0; layer < language.layers; layer++) {
    for (const [from, to] of Object.entries(LAYER_PARTS)) {
      weights.push(source.take(`blk.${layer}.${from}.weight`, `${LAYER}.${layer}.${to}.weight`))
    }
  }
  return weights
}
