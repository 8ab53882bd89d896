/**
 * Weights, by architecture, for which llama.cpp 0.4.0 supports no adapter. It marks their products as precise, and
 * aborts if an adapter's contribution follows the product (`ggml_mul_mat_set_prec` in llama-graph.cpp).
 */
export const WITHOUT_ADAPTERS: ReadonlyMap<string, RegExp> = new Map([
  ['glm4', /\.(attn_output|ffn_down)\.weight$/],
  ['glm4moe', /\.(attn_output|ffn_down|ffn_down_shexp)\.weight$/],
  ['jais2', /\.(attn_output|ffn_down)\.weight$/],
  ['deepseek4', /\.ffn_gate_inp\.weight$/],
])

/** Latent attention, and the output. */
const LATENT = /(^output|\.(attn_(q|q_a|q_b|kv_a_mqa|kv_b|k_b|v_b)|indexer\.\w+))\.weight$/
/** The same in layers that alternate with linear attention. */
const LINEAR =
  /(^output|\.(attn_(q|k|v|q_a|q_b|kv_a_mqa|kv_b|k_b|v_b|gate|output)|ssm_(beta|f_a|f_b|g|g_a|g_b)|nextn\.eh_proj))\.weight$/

/**
 * Weights, by architecture, that llama.cpp 0.4.0 multiplies without regard to adapters (`ggml_mul_mat` in place of
 * `build_lora_mm` in its src/models): it would silently ignore them.
 */
export const IGNORING_ADAPTERS: ReadonlyMap<string, RegExp> = new Map([
  ['deepseek2', LATENT],
  ['deepseek2-ocr', /(^output|\.attn_[qkv])\.weight$/],
  ['deepseek32', LATENT],
  ['deepseek4', /(^output|(^|[._])hc_\w+|\.attn_output_a)\.weight$/],
  ['dots3note', LATENT],
  ['glm-dsa', LATENT],
  ['mistral4', LATENT],
  ['minicpm3', /\.attn_(q_a|q_b|kv_a_mqa|kv_b)\.weight$/],
  ['plm', /\.attn_(q|kv_a_mqa|kv_b)\.weight$/],
  ['kimi-linear', LINEAR],
  ['kimi-k3', /(^output|\.(attn|ssm|ffn)_\w+(?<!_exps))\.weight$/],
  ['bailingmoe3', LINEAR],
  ['gemma3n', /(^|\.)(altup_(proj|router|unembd_proj)|per_layer_model_proj)\.weight$/],
  ['gemma4', /^per_layer_model_proj\.weight$/],
  ['nemotron_h', /\.ffn_latent_(down|up)\.weight$/],
  ['nemotron_h_moe', /\.ffn_latent_(down|up)\.weight$/],
  ['graniteswitch', /./],
])

/** Weights that are not matrix products in any architecture: lookup tables and convolutions. */
export const NO_PRODUCTS =
  /(^|\.)(position_embd|token_types|per_layer_token_embd|\w*conv1d\w*|shortconv\.conv|time_mix_(decay_)?[wagv][12])\.weight$/
