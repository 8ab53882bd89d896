import koffi from 'koffi'
import { locateNativeLibraries } from '../../../src/inference/local/native/native-paths.ts'
import { mtmdContextParams, type Pointer, type StructValue } from '../../../src/inference/local/native/structs.ts'
import { declareIn } from '../declare-c.ts'

/** Position of one media token: time, column, row; `z` is reserved. */
interface DecoderPosition {
  t: number
  x: number
  y: number
  z: number
}

/** libmtmd's own way to encode, which the engine does not use, under its functions' own names. */
export type PlainMtmd = ReturnType<typeof bindPlainMtmd>

const p = 'void *'

export function bindPlainMtmd() {
  const declare = declareIn(koffi.load(locateNativeLibraries().mtmd!))
  const decoderPosition = koffi.struct({ t: 'uint32', x: 'uint32', y: 'uint32', z: 'uint32' })
  return {
    init_from_file: declare<(path: string, model: Pointer, params: StructValue) => Pointer | null>(
      'mtmd_init_from_file',
      p,
      ['str', p, mtmdContextParams.type],
    ),
    free: declare<(context: Pointer) => void>('mtmd_free', 'void', [p]),
    image_tokens_get_decoder_pos: declare<(tokens: Pointer, start: number, index: number) => DecoderPosition>(
      'mtmd_image_tokens_get_decoder_pos',
      decoderPosition,
      [p, 'int32', 'size_t'],
    ),
    encode_chunk: declare<(context: Pointer, chunk: Pointer) => number>('mtmd_encode_chunk', 'int32', [p, p]),
    get_output_embd: declare<(context: Pointer) => Pointer>('mtmd_get_output_embd', p, [p]),
  }
}
