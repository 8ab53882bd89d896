import type { LibraryHandle } from 'koffi'
import { declareIn } from './declare.ts'
import { llamaContextParams, llamaModelParams, verifyDefaults } from './structs.ts'

/** libllama's C functions, under their own names. Handles are pointers; the wrapper classes free them. */
export type Llama = ReturnType<typeof bindLlama>

export function bindLlama(library: LibraryHandle) {
  const declare = declareIn(library)
  const llama = {
    version: declare('str llama_version()'),
    log_set: declare('void llama_log_set(pointer callback, pointer? data)'),
    backend_init: declare('void llama_backend_init()'),

    model_default_params: declare('llama_model_params llama_model_default_params()'),
    context_default_params: declare('llama_context_params llama_context_default_params()'),
    model_load_from_file: declare('pointer? llama_model_load_from_file(str path, llama_model_params params)'),
    model_free: declare('void llama_model_free(pointer model)'),
    model_n_ctx_train: declare('int32 llama_model_n_ctx_train(pointer model)'),
    model_n_swa: declare('int32 llama_model_n_swa(pointer model)'),
    model_is_recurrent: declare('bool llama_model_is_recurrent(pointer model)'),
    model_is_hybrid: declare('bool llama_model_is_hybrid(pointer model)'),
    model_n_embd_inp: declare('int32 llama_model_n_embd_inp(pointer model)'),
    model_n_embd_out: declare('int32 llama_model_n_embd_out(pointer model)'),
    model_n_cls_out: declare('uint32 llama_model_n_cls_out(pointer model)'),
    model_chat_template: declare('str? llama_model_chat_template(pointer model, str? name)'),
    model_meta_val_str: declare('int32 llama_model_meta_val_str(pointer model, str key, bytes buffer, size_t size)'),
    model_get_vocab: declare('pointer llama_model_get_vocab(pointer model)'),

    adapter_lora_init: declare('pointer? llama_adapter_lora_init(pointer model, str path)'),
    set_adapters_lora: declare(
      'int32 llama_set_adapters_lora(pointer context, uint64s adapters, size_t count, floats scales)',
    ),

    vocab_type: declare('int32 llama_vocab_type(pointer vocab)'),
    vocab_n_tokens: declare('int32 llama_vocab_n_tokens(pointer vocab)'),
    vocab_get_text: declare('str llama_vocab_get_text(pointer vocab, int32 token)'),
    vocab_is_eog: declare('bool llama_vocab_is_eog(pointer vocab, int32 token)'),
    vocab_get_add_bos: declare('bool llama_vocab_get_add_bos(pointer vocab)'),
    vocab_get_add_eos: declare('bool llama_vocab_get_add_eos(pointer vocab)'),
    vocab_get_add_sep: declare('bool llama_vocab_get_add_sep(pointer vocab)'),
    vocab_get_attr: declare('int llama_vocab_get_attr(pointer vocab, int32 token)'),
    vocab_bos: declare('int32 llama_vocab_bos(pointer vocab)'),
    vocab_eos: declare('int32 llama_vocab_eos(pointer vocab)'),
    vocab_sep: declare('int32 llama_vocab_sep(pointer vocab)'),
    tokenize: declare(
      `int32 llama_tokenize(pointer vocab, bytes text, int32 length, int32s tokens, int32 capacity,
        bool addSpecial, bool parseSpecial)`,
    ),
    token_to_piece: declare(
      'int32 llama_token_to_piece(pointer vocab, int32 token, bytes buffer, int32 length, int32 lstrip, bool special)',
    ),

    init_from_model: declare('pointer? llama_init_from_model(pointer model, llama_context_params params)'),
    free: declare('void llama_free(pointer context)'),
    n_batch: declare('uint32 llama_n_batch(pointer context)'),
    n_ctx: declare('uint32 llama_n_ctx(pointer context)'),
    get_memory: declare('pointer? llama_get_memory(pointer context)'),
    memory_clear: declare('void llama_memory_clear(pointer memory, bool data)'),
    memory_seq_rm: declare('bool llama_memory_seq_rm(pointer memory, int32 sequence, int32 from, int32 to)'),
    memory_seq_cp: declare(
      'void llama_memory_seq_cp(pointer memory, int32 source, int32 target, int32 from, int32 to)',
    ),
    memory_seq_pos_min: declare('int32 llama_memory_seq_pos_min(pointer memory, int32 sequence)'),
    state_seq_get_size: declare('size_t llama_state_seq_get_size(pointer context, int32 sequence)'),
    state_seq_get_data: declare(
      'size_t llama_state_seq_get_data(pointer context, bytes data, size_t size, int32 sequence)',
    ),
    state_seq_set_data: declare(
      'size_t llama_state_seq_set_data(pointer context, bytes data, size_t size, int32 sequence)',
    ),
    set_n_threads: declare('void llama_set_n_threads(pointer context, int32 threads, int32 batchThreads)'),
    set_causal_attn: declare('void llama_set_causal_attn(pointer context, bool causal)'),
    batch_init: declare('llama_batch llama_batch_init(int32 tokens, int32 embeddingSize, int32 sequences)'),
    batch_free: declare('void llama_batch_free(llama_batch batch)'),
    get_logits_ith: declare('pointer? llama_get_logits_ith(pointer context, int32 row)'),
    get_embeddings_seq: declare('pointer? llama_get_embeddings_seq(pointer context, int32 sequence)'),
    decode: declare('int32 llama_decode(pointer context, llama_batch batch)'),
    synchronize: declare('void llama_synchronize(pointer context)'),
  }
  verifyDefaults('llama_model_params', llama.model_default_params(), llamaModelParams.defaults)
  verifyDefaults('llama_context_params', llama.context_default_params(), llamaContextParams.defaults)
  return llama
}
