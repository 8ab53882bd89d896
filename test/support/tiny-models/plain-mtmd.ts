import koffi from 'koffi'
import { declareIn } from '../../../src/inference/local/native/declare.ts'
import { locateNativeLibraries } from '../../../src/inference/local/native/native-paths.ts'

/** libmtmd's own way to encode, which the engine does not use, under its functions' own names. */
export type PlainMtmd = ReturnType<typeof bindPlainMtmd>

export function bindPlainMtmd() {
  // Position of one media token: time, column, row; `z` is reserved.
  const mtmd_decoder_pos = koffi.struct({ t: 'uint32', x: 'uint32', y: 'uint32', z: 'uint32' })
  const declare = declareIn(koffi.load(locateNativeLibraries().mtmd!), { mtmd_decoder_pos })
  return {
    init_from_file: declare('pointer? mtmd_init_from_file(str path, pointer model, mtmd_context_params params)'),
    free: declare('void mtmd_free(pointer context)'),
    image_tokens_get_decoder_pos: declare(
      'mtmd_decoder_pos mtmd_image_tokens_get_decoder_pos(pointer tokens, int32 start, size_t index)',
    ),
    encode_chunk: declare('int32 mtmd_encode_chunk(pointer context, pointer chunk)'),
    get_output_embd: declare('pointer mtmd_get_output_embd(pointer context)'),
  }
}
