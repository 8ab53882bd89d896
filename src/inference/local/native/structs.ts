import koffi from 'koffi'

/**
 * C structs that are passed by value, in the layout of llama.cpp 0.4.0. The libraries do not describe their layouts, so
 * `verifyDefaults` checks them: it compares the values that the libraries' default functions return with the documented
 * defaults of that release.
 */

/** Address of native memory; null is C's NULL. */
export type Pointer = bigint

const pointer = 'void *'

export const llamaModelParams = koffi.struct({
  devices: pointer,
  tensor_buft_overrides: pointer,
  n_gpu_layers: 'int32',
  split_mode: 'int32',
  load_mode: 'int32',
  lazy_mode: 'int32',
  main_gpu: 'int32',
  tensor_split: pointer,
  progress_callback: pointer,
  progress_callback_user_data: pointer,
  kv_overrides: pointer,
  vocab_only: 'bool',
  check_tensors: 'bool',
  use_extra_bufts: 'bool',
  no_host: 'bool',
  no_alloc: 'bool',
  load_mtp: 'bool',
})

export const llamaContextParams = koffi.struct({
  n_ctx: 'uint32',
  n_batch: 'uint32',
  n_ubatch: 'uint32',
  n_seq_max: 'uint32',
  n_rs_seq: 'uint32',
  n_outputs_max: 'uint32',
  n_outputs_max_per_seq: 'uint32',
  n_threads: 'int32',
  n_threads_batch: 'int32',
  ctx_type: 'int32',
  rope_scaling_type: 'int32',
  pooling_type: 'int32',
  attention_type: 'int32',
  flash_attn_type: 'int32',
  rope_freq_base: 'float',
  rope_freq_scale: 'float',
  yarn_ext_factor: 'float',
  yarn_attn_factor: 'float',
  yarn_beta_fast: 'float',
  yarn_beta_slow: 'float',
  yarn_orig_ctx: 'uint32',
  defrag_thold: 'float',
  cb_eval: pointer,
  cb_eval_user_data: pointer,
  type_k: 'int32',
  type_v: 'int32',
  abort_callback: pointer,
  abort_callback_data: pointer,
  embeddings: 'bool',
  offload_kqv: 'bool',
  no_perf: 'bool',
  op_offload: 'bool',
  swa_full: 'bool',
  kv_unified: 'bool',
  samplers: pointer,
  n_samplers: 'size_t',
  ctx_other: pointer,
})

export const llamaBatch = koffi.struct({
  n_tokens: 'int32',
  token: pointer,
  embd: pointer,
  pos: pointer,
  n_seq_id: pointer,
  seq_id: pointer,
  logits: pointer,
})

export const mtmdContextParams = koffi.struct({
  use_gpu: 'bool',
  device: pointer,
  print_timings: 'bool',
  n_threads: 'int',
  image_marker: pointer,
  media_marker: 'str',
  flash_attn_type: 'int',
  warmup: 'bool',
  image_min_tokens: 'int',
  image_max_tokens: 'int',
  cb_eval: pointer,
  cb_eval_user_data: pointer,
  batch_max_tokens: 'int32',
  progress_callback: pointer,
  progress_callback_user_data: pointer,
})

const mtmdInputText = koffi.struct({
  text: 'uint8_t *',
  text_len: 'size_t',
  add_special: 'bool',
  parse_special: 'bool',
})

export const mtmdInputPart = koffi.struct({ text: koffi.pointer(mtmdInputText), bitmap: pointer })

export const mtmdDecoderPosition = koffi.struct({ t: 'uint32', x: 'uint32', y: 'uint32', z: 'uint32' })

/** A typed array stands for a pointer to its memory, which is valid during the call. */
type Field = number | bigint | boolean | string | null | Float32Array | BigUint64Array
export type StructValue = Record<string, Field>

/** Lets the library decide by model and device whether to use flash attention. */
const FLASH_ATTENTION_AUTO = -1
const TYPE_F16 = 1

export const modelDefaults: StructValue = {
  devices: null,
  tensor_buft_overrides: null,
  n_gpu_layers: -1,
  split_mode: 1,
  load_mode: -1,
  lazy_mode: 1,
  main_gpu: 0,
  tensor_split: null,
  progress_callback: null,
  progress_callback_user_data: null,
  kv_overrides: null,
  vocab_only: false,
  check_tensors: false,
  use_extra_bufts: true,
  no_host: false,
  no_alloc: false,
  load_mtp: false,
}

export const contextDefaults: StructValue = {
  n_ctx: 512,
  n_batch: 2048,
  n_ubatch: 512,
  n_seq_max: 1,
  n_rs_seq: 0,
  n_outputs_max: 0,
  n_outputs_max_per_seq: 1,
  n_threads: 4,
  n_threads_batch: 4,
  ctx_type: 0,
  rope_scaling_type: -1,
  pooling_type: -1,
  attention_type: -1,
  flash_attn_type: FLASH_ATTENTION_AUTO,
  rope_freq_base: 0,
  rope_freq_scale: 0,
  yarn_ext_factor: -1,
  yarn_attn_factor: -1,
  yarn_beta_fast: -1,
  yarn_beta_slow: -1,
  yarn_orig_ctx: 0,
  defrag_thold: -1,
  cb_eval: null,
  cb_eval_user_data: null,
  type_k: TYPE_F16,
  type_v: TYPE_F16,
  abort_callback: null,
  abort_callback_data: null,
  embeddings: false,
  offload_kqv: true,
  no_perf: true,
  op_offload: true,
  swa_full: true,
  kv_unified: false,
  samplers: null,
  n_samplers: 0,
  ctx_other: null,
}

export const mtmdDefaults: StructValue = {
  use_gpu: true,
  device: null,
  print_timings: true,
  n_threads: 4,
  image_marker: null,
  media_marker: '<__media__>',
  flash_attn_type: FLASH_ATTENTION_AUTO,
  warmup: true,
  image_min_tokens: -1,
  image_max_tokens: -1,
  cb_eval: null,
  cb_eval_user_data: null,
  batch_max_tokens: 1024,
  progress_callback: null,
  progress_callback_user_data: null,
}

/** @throws Error that names the field when a library's defaults differ from those of the release. */
export function verifyDefaults(struct: string, actual: StructValue, expected: StructValue): void {
  for (const [field, value] of Object.entries(expected)) {
    const found = actual[field]
    if (found === value || (typeof found === 'bigint' && found === BigInt(value as number))) continue
    throw new Error(
      `The native library does not match this release of Lookout: ${struct}.${field} defaults to ${String(found)}, ` +
        `but llama.cpp 0.4.0 has ${String(value)}. Reinstall the dependencies ("npm ci") and run "npm run setup".`,
    )
  }
}
