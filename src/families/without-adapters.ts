/**
 * Weights, by architecture, beside which llama.cpp 0.4.0 computes no adapter. It marks their products as precise, and ends the
 * process where what an adapter adds comes after the product (`ggml_mul_mat_set_prec` in llama-graph.cpp).
 */
export const WITHOUT_ADAPTERS: ReadonlyMap<string, RegExp> = new Map([
  ['glm4', /\.(attn_output|ffn_down)\.weight$/],
  ['glm4moe', /\.(attn_output|ffn_down|ffn_down_shexp)\.weight$/],
  ['jais2', /\.(attn_output|ffn_down)\.weight$/],
  ['deepseek4', /\.ffn_gate_inp\.weight$/],
])
