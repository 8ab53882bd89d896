import type { LibraryHandle } from 'koffi'
import { declareIn } from './declare.ts'
import { mtmdContextParams, verifyDefaults } from './structs.ts'

/** libmtmd's C functions, under their own names, and ours in the same library. */
export type Mtmd = ReturnType<typeof bindMtmd>

export function bindMtmd(library: LibraryHandle) {
  const declare = declareIn(library)
  const mtmd = {
    log_set: declare('void mtmd_log_set(pointer callback, pointer? data)'),
    context_params_default: declare('mtmd_context_params mtmd_context_params_default()'),
    support_vision: declare('bool mtmd_support_vision(pointer context)'),
    support_audio: declare('bool mtmd_support_audio(pointer context)'),
    get_audio_sample_rate: declare('int mtmd_get_audio_sample_rate(pointer context)'),
    decode_use_mrope: declare('bool mtmd_decode_use_mrope(pointer context)'),
    decode_use_non_causal: declare('bool mtmd_decode_use_non_causal(pointer context, pointer? chunk)'),

    bitmap_init: declare('pointer mtmd_bitmap_init(uint32 width, uint32 height, bytes? pixels)'),
    bitmap_init_from_audio: declare('pointer mtmd_bitmap_init_from_audio(size_t samples, floats? data)'),
    bitmap_set_mergeable: declare('void mtmd_bitmap_set_mergeable(pointer bitmap, bool mergeable)'),
    bitmap_free: declare('void mtmd_bitmap_free(pointer bitmap)'),

    tokenize_from_parts: declare(
      `int32 mtmd_tokenize_from_parts(pointer context, pointer chunks, mtmd_input_parts parts, size_t count,
        bool addSpecial)`,
    ),
    input_chunks_init: declare('pointer mtmd_input_chunks_init()'),
    input_chunks_size: declare('size_t mtmd_input_chunks_size(pointer chunks)'),
    input_chunks_get: declare('pointer mtmd_input_chunks_get(pointer chunks, size_t index)'),
    input_chunks_free: declare('void mtmd_input_chunks_free(pointer chunks)'),
    input_chunk_get_type: declare('int mtmd_input_chunk_get_type(pointer chunk)'),
    input_chunk_get_tokens_text: declare('pointer mtmd_input_chunk_get_tokens_text(pointer chunk, out_size count)'),
    input_chunk_get_tokens_image: declare('pointer mtmd_input_chunk_get_tokens_image(pointer chunk)'),
    input_chunk_get_n_tokens: declare('size_t mtmd_input_chunk_get_n_tokens(pointer chunk)'),
    input_chunk_get_n_pos: declare('int32 mtmd_input_chunk_get_n_pos(pointer chunk)'),

    // Our own; see `encoder.cpp`.
    encoder_new: declare('pointer? lookout_encoder_new()'),
    encoder_load: declare(
      `pointer? lookout_encoder_load(pointer encoder, str path, pointer model, mtmd_context_params params,
        bool canPause)`,
    ),
    encoder_run: declare(
      'int32 lookout_encoder_run(pointer encoder, pointer chunk, double ms, floats output, size_t size)',
    ),
    image_positions: declare(
      'void lookout_image_positions(pointer tokens, int32 start, size_t from, size_t to, int32s planes)',
    ),
    encoder_cancel: declare('void lookout_encoder_cancel(pointer encoder)'),
    encoder_free: declare('void lookout_encoder_free(pointer encoder)'),
  }
  verifyDefaults('mtmd_context_params', mtmd.context_params_default(), mtmdContextParams.defaults)
  return mtmd
}
