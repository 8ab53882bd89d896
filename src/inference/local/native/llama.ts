import type { LibraryHandle } from 'koffi'
import { declareIn } from './declare.ts'
import {
  llamaBatch,
  llamaContextParams,
  llamaModelParams,
  type Pointer,
  type StructValue,
  verifyDefaults,
} from './structs.ts'

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

/** libllama's C functions, under their own names. Handles are pointers; the wrapper classes free them. */
export type Llama = ReturnType<typeof bindLlama>

const p = 'void *'

export function bindLlama(library: LibraryHandle) {
  const declare = declareIn(library)
  const llama = {
    version: declare<() => string>('llama_version', 'str', []),
    log_set: declare<(callback: Pointer, data: null) => void>('llama_log_set', 'void', [p, p]),
    backend_init: declare<() => void>('llama_backend_init', 'void', []),

    model_default_params: declare<() => StructValue>('llama_model_default_params', llamaModelParams.type, []),
    context_default_params: declare<() => StructValue>('llama_context_default_params', llamaContextParams.type, []),
    model_load_from_file: declare<(path: string, params: StructValue) => Pointer | null>(
      'llama_model_load_from_file',
      p,
      ['str', llamaModelParams.type],
    ),
    model_free: declare<(model: Pointer) => void>('llama_model_free', 'void', [p]),
    model_n_ctx_train: declare<(model: Pointer) => number>('llama_model_n_ctx_train', 'int32', [p]),
    model_n_swa: declare<(model: Pointer) => number>('llama_model_n_swa', 'int32', [p]),
    model_is_recurrent: declare<(model: Pointer) => boolean>('llama_model_is_recurrent', 'bool', [p]),
    model_is_hybrid: declare<(model: Pointer) => boolean>('llama_model_is_hybrid', 'bool', [p]),
    model_n_embd_inp: declare<(model: Pointer) => number>('llama_model_n_embd_inp', 'int32', [p]),
    model_chat_template: declare<(model: Pointer, name: null) => string | null>('llama_model_chat_template', 'str', [
      p,
      'str',
    ]),
    model_meta_val_str: declare<(model: Pointer, key: string, buffer: Uint8Array, size: number) => number>(
      'llama_model_meta_val_str',
      'int32',
      [p, 'str', p, 'size_t'],
    ),
    model_get_vocab: declare<(model: Pointer) => Pointer>('llama_model_get_vocab', p, [p]),

    vocab_type: declare<(vocab: Pointer) => number>('llama_vocab_type', 'int32', [p]),
    vocab_n_tokens: declare<(vocab: Pointer) => number>('llama_vocab_n_tokens', 'int32', [p]),
    vocab_get_text: declare<(vocab: Pointer, token: number) => string>('llama_vocab_get_text', 'str', [p, 'int32']),
    vocab_is_eog: declare<(vocab: Pointer, token: number) => boolean>('llama_vocab_is_eog', 'bool', [p, 'int32']),
    vocab_get_add_bos: declare<(vocab: Pointer) => boolean>('llama_vocab_get_add_bos', 'bool', [p]),
    vocab_get_attr: declare<(vocab: Pointer, token: number) => number>('llama_vocab_get_attr', 'int', [p, 'int32']),
    vocab_bos: declare<(vocab: Pointer) => number>('llama_vocab_bos', 'int32', [p]),
    vocab_eos: declare<(vocab: Pointer) => number>('llama_vocab_eos', 'int32', [p]),
    tokenize: declare<
      (
        vocab: Pointer,
        text: Uint8Array,
        length: number,
        tokens: Int32Array,
        capacity: number,
        addSpecial: boolean,
        parseSpecial: boolean,
      ) => number
    >('llama_tokenize', 'int32', [p, p, 'int32', p, 'int32', 'bool', 'bool']),
    token_to_piece: declare<
      (vocab: Pointer, token: number, buffer: Uint8Array, length: number, lstrip: number, special: boolean) => number
    >('llama_token_to_piece', 'int32', [p, 'int32', p, 'int32', 'int32', 'bool']),

    init_from_model: declare<(model: Pointer, params: StructValue) => Pointer | null>('llama_init_from_model', p, [
      p,
      llamaContextParams.type,
    ]),
    free: declare<(context: Pointer) => void>('llama_free', 'void', [p]),
    n_batch: declare<(context: Pointer) => number>('llama_n_batch', 'uint32', [p]),
    n_ctx: declare<(context: Pointer) => number>('llama_n_ctx', 'uint32', [p]),
    get_memory: declare<(context: Pointer) => Pointer>('llama_get_memory', p, [p]),
    memory_clear: declare<(memory: Pointer, data: boolean) => void>('llama_memory_clear', 'void', [p, 'bool']),
    memory_seq_rm: declare<(memory: Pointer, sequence: number, from: number, to: number) => boolean>(
      'llama_memory_seq_rm',
      'bool',
      [p, 'int32', 'int32', 'int32'],
    ),
    memory_seq_cp: declare<(memory: Pointer, source: number, target: number, from: number, to: number) => void>(
      'llama_memory_seq_cp',
      'void',
      [p, 'int32', 'int32', 'int32', 'int32'],
    ),
    state_seq_get_size: declare<(context: Pointer, sequence: number) => number>('llama_state_seq_get_size', 'size_t', [
      p,
      'int32',
    ]),
    state_seq_get_data: declare<(context: Pointer, data: Uint8Array, size: number, sequence: number) => number>(
      'llama_state_seq_get_data',
      'size_t',
      [p, p, 'size_t', 'int32'],
    ),
    state_seq_set_data: declare<(context: Pointer, data: Uint8Array, size: number, sequence: number) => number>(
      'llama_state_seq_set_data',
      'size_t',
      [p, p, 'size_t', 'int32'],
    ),
    set_n_threads: declare<(context: Pointer, threads: number, batchThreads: number) => void>(
      'llama_set_n_threads',
      'void',
      [p, 'int32', 'int32'],
    ),
    set_causal_attn: declare<(context: Pointer, causal: boolean) => void>('llama_set_causal_attn', 'void', [p, 'bool']),
    batch_init: declare<(tokens: number, embeddingSize: number, sequences: number) => NativeBatch>(
      'llama_batch_init',
      llamaBatch,
      ['int32', 'int32', 'int32'],
    ),
    batch_free: declare<(batch: NativeBatch) => void>('llama_batch_free', 'void', [llamaBatch]),
    get_logits_ith: declare<(context: Pointer, row: number) => Pointer | null>('llama_get_logits_ith', p, [p, 'int32']),
    decode: declare<(context: Pointer, batch: NativeBatch) => number>('llama_decode', 'int32', [p, llamaBatch]),
    synchronize: declare<(context: Pointer) => void>('llama_synchronize', 'void', [p]),
  }
  verifyDefaults('llama_model_params', llama.model_default_params(), llamaModelParams.defaults)
  verifyDefaults('llama_context_params', llama.context_default_params(), llamaContextParams.defaults)
  return llama
}
