import koffi from 'koffi'
import { declareIn } from './declare.ts'
import type { Pointer } from './structs.ts'

/** Functions of the compiled kernels that ggml does not call. See `kernels/choice.cpp` and `kernels/clearing.cpp`. */
export interface Kernels {
  /**
   * The lowest of the tokens with the largest logit; -1 when none is larger than minus infinity.
   * @param logits one f32 for each of `count` tokens.
   * @param mask a bit for each token that may be chosen, 32 to a word; all may when it is null.
   */
  likeliest(logits: Pointer | Float32Array, count: number, mask: Int32Array | null): number
  /** From then on, a KV cache takes memory for cells that have been used, instead of for all of them. */
  clearByReleasing(): void
}

export function bindKernels(path: string): Kernels {
  const declare = declareIn(koffi.load(path))
  return {
    likeliest: declare<Kernels['likeliest']>('lookout_likeliest', 'int32', ['void *', 'int32', 'void *']),
    clearByReleasing: declare<Kernels['clearByReleasing']>('lookout_clear_by_releasing', 'void', []),
  }
}
