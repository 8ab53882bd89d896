import koffi, { type TypeObject } from 'koffi'

/**
 * C structs that are passed by value, in the layout of llama.cpp 0.4.0. The libraries do not describe their layouts, so
 * `verifyDefaults` checks them: it compares the values that the libraries' default functions return with the documented
 * defaults of that release.
 */

/** Address of native memory; null is C's NULL. */
export type Pointer = bigint

const pointer = 'void *'
/** Lets the library decide by model and device whether to use flash attention. */
const FLASH_ATTENTION_AUTO = -1
const TYPE_F16 = 1

/** A typed array represents a pointer to its memory, which is valid during the call. */
type Field = number | bigint | boolean | string | null | Float32Array | BigUint64Array
export type StructValue = Record<string, Field>

/** A struct of parameters. @param fields their C types and documented defaults. */
function paramsOf(fields: Readonly<Record<string, readonly [type: string, value: Field]>>) {
  const column = <Index extends 0 | 1>(index: Index) =>
    Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field[index]]))
  return { type: koffi.struct(column(0)), defaults: column(1) }
}

export const llamaModelParams = paramsOf({
  devices: [pointer, null],
  tensor_buft_overrides: [pointer, null],
  n_gpu_layers: ['int32', -1],
  split_mode: ['int32', 1],
  load_mode: ['int32', -1],
  lazy_mode: ['int32', 1],
  main_gpu: ['int32', 0],
  tensor_split: [pointer, null],
  progress_callback: [pointer, null],
  progress_callback_user_data: [pointer, null],
  kv_overrides: [pointer, null],
  vocab_only: ['bool', false],
  check_tensors: ['bool', false],
  use_extra_bufts: ['bool', true],
  no_host: ['bool', false],
  no_alloc: ['bool', false],
  load_mtp: ['bool', false],
})

export const llamaContextParams = paramsOf({
  n_ctx: ['uint32', 512],
  n_batch: ['uint32', 2048],
  n_ubatch: ['uint32', 512],
  n_seq_max: ['uint32', 1],
  n_rs_seq: ['uint32', 0],
  n_outputs_max: ['uint32', 0],
  n_outputs_max_per_seq: ['uint32', 1],
  n_threads: ['int32', 4],
  n_threads_batch: ['int32', 4],
  ctx_type: ['int32', 0],
  rope_scaling_type: ['int32', -1],
  pooling_type: ['int32', -1],
  attention_type: ['int32', -1],
  flash_attn_type: ['int32', FLASH_ATTENTION_AUTO],
  rope_freq_base: ['float', 0],
  rope_freq_scale: ['float', 0],
  yarn_ext_factor: ['float', -1],
  yarn_attn_factor: ['float', -1],
  yarn_beta_fast: ['float', -1],
  yarn_beta_slow: ['float', -1],
  yarn_orig_ctx: ['uint32', 0],
  defrag_thold: ['float', -1],
  cb_eval: [pointer, null],
  cb_eval_user_data: [pointer, null],
  type_k: ['int32', TYPE_F16],
  type_v: ['int32', TYPE_F16],
  abort_callback: [pointer, null],
  abort_callback_data: [pointer, null],
  embeddings: ['bool', false],
  offload_kqv: ['bool', true],
  no_perf: ['bool', true],
  op_offload: ['bool', true],
  swa_full: ['bool', true],
  kv_unified: ['bool', false],
  samplers: [pointer, null],
  n_samplers: ['size_t', 0],
  ctx_other: [pointer, null],
})

/** The batch of one `llama_decode` call; `batch.ts` owns the memory behind the pointers. */
export interface NativeBatch {
  n_tokens: number
  token: Pointer | null
  embd: Pointer | Float32Array | null
  pos: Pointer | Int32Array
  n_seq_id: Pointer
  seq_id: Pointer
  logits: Pointer
}

const llamaBatch = koffi.struct({
  n_tokens: 'int32',
  token: pointer,
  embd: pointer,
  pos: pointer,
  n_seq_id: pointer,
  seq_id: pointer,
  logits: pointer,
})

export const mtmdContextParams = paramsOf({
  use_gpu: ['bool', true],
  device: [pointer, null],
  print_timings: ['bool', true],
  n_threads: ['int', 4],
  image_marker: [pointer, null],
  media_marker: ['str', '<__media__>'],
  flash_attn_type: ['int', FLASH_ATTENTION_AUTO],
  warmup: ['bool', true],
  image_min_tokens: ['int', -1],
  image_max_tokens: ['int', -1],
  cb_eval: [pointer, null],
  cb_eval_user_data: [pointer, null],
  batch_max_tokens: ['int32', 1024],
  progress_callback: [pointer, null],
  progress_callback_user_data: [pointer, null],
})

const mtmdInputText = koffi.struct({
  text: 'uint8_t *',
  text_len: 'size_t',
  add_special: 'bool',
  parse_special: 'bool',
})

export interface NativeInputPart {
  text: { text: Uint8Array; text_len: number; add_special: boolean; parse_special: boolean } | null
  bitmap: Pointer | null
}

const mtmdInputPart = koffi.struct({ text: koffi.pointer(mtmdInputText), bitmap: pointer })

/** koffi's types by the names that prototypes use. */
export const structTypes: Readonly<Record<string, TypeObject | ReturnType<typeof koffi.out>>> = {
  llama_model_params: llamaModelParams.type,
  llama_context_params: llamaContextParams.type,
  llama_batch: llamaBatch,
  mtmd_context_params: mtmdContextParams.type,
  mtmd_input_parts: koffi.pointer(koffi.pointer(mtmdInputPart)),
  out_size: koffi.out(koffi.pointer('size_t')),
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
