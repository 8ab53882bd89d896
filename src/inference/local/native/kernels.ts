import koffi from 'koffi'
import { type Declare, declareIn } from './declare.ts'
import { type LogitsOperations, PLAIN_OPERATIONS } from './logits-operations.ts'

/**
 * The functions of the compiled kernels that ggml does not call. See `kernels/logits.cpp`, `kernels/zero-pages.cpp`,
 * `kernels/cell-order.cpp` and `kernels/gemm.cpp`.
 */
export interface Kernels {
  readonly operations: LogitsOperations
  /** Sets the threads per row of logits: more than one where the CPU only waits for a GPU. */
  shareRows(threads: number): void
  /**
   * From now on, only the used cells of a new KV cache are resident in memory, and the cache tracks the order in which its
   * cells are written.
   */
  clearWithZeroPages(): void
  /**
   * Whether they multiply quantised weights as the file has them. ggml then need not repack the weights, which would take as
   * much memory again.
   */
  readonly computesProducts: boolean
  /** Whether everything computed so far was batch-invariant: a row has the same bits in any batch. */
  isInvariant(): boolean
}

/** Whether ggml repacks weights, which its own code multiplies faster. */
export function repacksWeights(kernels: Kernels | null): boolean {
  return kernels?.computesProducts !== true
}

export function bindKernels(path: string): Kernels {
  const declare = declareIn(koffi.load(path))
  return {
    operations: bindOperations(declare),
    shareRows: declare('void lookout_set_row_threads(int32 threads)'),
    clearWithZeroPages: declare('void lookout_clear_with_zero_pages()'),
    computesProducts: declare('bool lookout_has_gemm()')(),
    isInvariant: declare('bool lookout_is_batch_invariant()'),
  }
}

type Row = readonly [logits: Float32Array, count: number, mask: Int32Array | null]

/** The functions of `kernels/logits.cpp`. */
export function bindOperations(declare: Declare): LogitsOperations {
  const argmax = declare('int32 lookout_argmax(floats logits, int32 count, int32s? mask)')
  const topK = declare('int32 lookout_top_k(floats logits, int32 count, int32s? mask, int32 k, int32s tokens)')
  const logSumExp = declare('double lookout_log_sum_exp(floats logits, int32 count, int32s? mask)')
  const topPCutoff = declare('float lookout_top_p_cutoff(floats logits, int32 count, int32s? mask, double topP)')
  const sample = declare(
    `int32 lookout_sample(floats logits, int32 count, int32s? mask, double temperature, double minLogit,
      uint32 drawSeed)`,
  )
  const rowOf = (logits: Float32Array, allowed?: Int32Array): Row => [logits, logits.length, allowed ?? null]
  return {
    argmax: (logits, allowed) => {
      const token = argmax(...rowOf(logits, allowed))
      return token < 0 ? PLAIN_OPERATIONS.argmax(logits, allowed) : token
    },
    topK: (logits, k, allowed) => {
      const tokens = new Int32Array(Math.min(k, logits.length))
      return tokens.subarray(0, topK(...rowOf(logits, allowed), tokens.length, tokens))
    },
    logSumExp: (logits, allowed) => logSumExp(...rowOf(logits, allowed)),
    topPCutoff: (logits, topP, allowed) => topPCutoff(...rowOf(logits, allowed), topP),
    sample: (logits, { temperature, minLogit, drawSeed }, allowed) => {
      const token = sample(...rowOf(logits, allowed), temperature, minLogit, drawSeed)
      return token < 0 ? null : token
    },
  }
}
