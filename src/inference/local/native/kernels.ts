import koffi from 'koffi'
import { declareIn } from './declare.ts'
import type { Pointer } from './structs.ts'

/**
 * What the compiled kernels have beyond what ggml calls. See `kernels/choice.cpp`, `kernels/clearing.cpp` and
 * `kernels/product.cpp`.
 */
export interface Kernels {
  /**
   * The lowest of the tokens with the largest logit; -1 when none is larger than minus infinity.
   * @param logits one f32 for each of `count` tokens.
   * @param mask a bit for each token that may be chosen, 32 to a word; all may when it is null.
   */
  likeliest(logits: Pointer | Float32Array, count: number, mask: Int32Array | null): number
  /** From then on, a KV cache takes memory for cells that have been used, instead of for all of them. */
  clearByReleasing(): void
  /**
   * Whether they compute products of quantised weights from the weights as the file has them. ggml need not rearrange
   * those then, which would take as much memory again.
   */
  readonly computesProducts: boolean
}

export function bindKernels(path: string): Kernels {
  const declare = declareIn(koffi.load(path))
  return {
    likeliest: declare<Kernels['likeliest']>('lookout_likeliest', 'int32', ['void *', 'int32', 'void *']),
    clearByReleasing: declare<Kernels['clearByReleasing']>('lookout_clear_by_releasing', 'void', []),
    computesProducts: declare<() => boolean>('lookout_computes_products', 'bool', [])(),
  }
}
