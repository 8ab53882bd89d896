import koffi, { type LibraryHandle } from 'koffi'
import { declareIn } from './declare.ts'
import { mtmdContextParams, mtmdInputPart, type Pointer, type StructValue, verifyDefaults } from './structs.ts'

export interface NativeInputPart {
  text: { text: Uint8Array; text_len: number; add_special: boolean; parse_special: boolean } | null
  bitmap: Pointer | null
}

/** libmtmd's C functions, under their own names, and ours in the same library. */
export type Mtmd = ReturnType<typeof bindMtmd>

const p = 'void *'

export function bindMtmd(library: LibraryHandle) {
  const declare = declareIn(library)
  const mtmd = {
    log_set: declare<(callback: Pointer, data: null) => void>('mtmd_log_set', 'void', [p, p]),
    context_params_default: declare<() => StructValue>('mtmd_context_params_default', mtmdContextParams.type, []),
    support_vision: declare<(context: Pointer) => boolean>('mtmd_support_vision', 'bool', [p]),
    support_audio: declare<(context: Pointer) => boolean>('mtmd_support_audio', 'bool', [p]),
    get_audio_sample_rate: declare<(context: Pointer) => number>('mtmd_get_audio_sample_rate', 'int', [p]),
    decode_use_mrope: declare<(context: Pointer) => boolean>('mtmd_decode_use_mrope', 'bool', [p]),
    decode_use_non_causal: declare<(context: Pointer, chunk: Pointer | null) => boolean>(
      'mtmd_decode_use_non_causal',
      'bool',
      [p, p],
    ),

    bitmap_init: declare<(width: number, height: number, pixels: Uint8Array | null) => Pointer>('mtmd_bitmap_init', p, [
      'uint32',
      'uint32',
      p,
    ]),
    bitmap_init_from_audio: declare<(samples: number, data: Float32Array | null) => Pointer>(
      'mtmd_bitmap_init_from_audio',
      p,
      ['size_t', p],
    ),
    bitmap_set_mergeable: declare<(bitmap: Pointer, mergeable: boolean) => void>('mtmd_bitmap_set_mergeable', 'void', [
      p,
      'bool',
    ]),
    bitmap_free: declare<(bitmap: Pointer) => void>('mtmd_bitmap_free', 'void', [p]),

    tokenize_from_parts: declare<
      (context: Pointer, chunks: Pointer, parts: NativeInputPart[], count: number, addSpecial: boolean) => number
    >('mtmd_tokenize_from_parts', 'int32', [p, p, koffi.pointer(koffi.pointer(mtmdInputPart)), 'size_t', 'bool']),
    input_chunks_init: declare<() => Pointer>('mtmd_input_chunks_init', p, []),
    input_chunks_size: declare<(chunks: Pointer) => number>('mtmd_input_chunks_size', 'size_t', [p]),
    input_chunks_get: declare<(chunks: Pointer, index: number) => Pointer>('mtmd_input_chunks_get', p, [p, 'size_t']),
    input_chunks_free: declare<(chunks: Pointer) => void>('mtmd_input_chunks_free', 'void', [p]),
    input_chunk_get_type: declare<(chunk: Pointer) => number>('mtmd_input_chunk_get_type', 'int', [p]),
    input_chunk_get_tokens_text: declare<(chunk: Pointer, count: [number]) => Pointer>(
      'mtmd_input_chunk_get_tokens_text',
      p,
      [p, koffi.out(koffi.pointer('size_t'))],
    ),
    input_chunk_get_tokens_image: declare<(chunk: Pointer) => Pointer>('mtmd_input_chunk_get_tokens_image', p, [p]),
    input_chunk_get_n_tokens: declare<(chunk: Pointer) => number>('mtmd_input_chunk_get_n_tokens', 'size_t', [p]),
    input_chunk_get_n_pos: declare<(chunk: Pointer) => number>('mtmd_input_chunk_get_n_pos', 'int32', [p]),

    // Our own; see `encoder.cpp`.
    encoder_new: declare<() => Pointer | null>('lookout_encoder_new', p, []),
    encoder_load: declare<
      (encoder: Pointer, path: string, model: Pointer, params: StructValue, canPause: boolean) => Pointer | null
    >('lookout_encoder_load', p, [p, 'str', p, mtmdContextParams.type, 'bool']),
    encoder_run: declare<(encoder: Pointer, chunk: Pointer, ms: number, output: Float32Array, size: number) => number>(
      'lookout_encoder_run',
      'int32',
      [p, p, 'double', p, 'size_t'],
    ),
    image_positions: declare<(tokens: Pointer, start: number, from: number, to: number, planes: Int32Array) => void>(
      'lookout_image_positions',
      'void',
      [p, 'int32', 'size_t', 'size_t', p],
    ),
    encoder_cancel: declare<(encoder: Pointer) => void>('lookout_encoder_cancel', 'void', [p]),
    encoder_free: declare<(encoder: Pointer) => void>('lookout_encoder_free', 'void', [p]),
  }
  verifyDefaults('mtmd_context_params', mtmd.context_params_default(), mtmdContextParams.defaults)
  return mtmd
}
