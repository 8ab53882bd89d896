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

export function bindKernels(path: string): Kernels {
  const declare = declareIn(koffi.load(path))
  return {
    operations: bindOperations(declare),
    shareRows: declare<Kernels['shareRows']>('lookout_set_row_threads', 'void', ['int32']),
    clearWithZeroPages: declare<Kernels['clearWithZeroPages']>('lookout_clear_with_zero_pages', 'void', []),
    computesProducts: declare<() => boolean>('lookout_has_gemm', 'bool', [])(),
    isInvariant: declare<() => boolean>('lookout_is_batch_invariant', 'bool', []),
  }
}

type Row = readonly [logits: Float32Array, count: number, mask: Int32Array | null]

/** The functions of `kernels/logits.cpp`. */
export function bindOperations(declare: Declare): LogitsOperations {
  const ROW = ['void *', 'int32', 'void *']
  const argmax = declare<(...row: Row) => number>('lookout_argmax', 'int32', ROW)
  const topK = declare<(...args: [...Row, k: number, tokens: Int32Array]) => number>('lookout_top_k', 'int32', [
    ...ROW,
    'int32',
    'void *',
  ])
  const logSumExp = declare<(...row: Row) => number>('lookout_log_sum_exp', 'double', ROW)
  const topPCutoff = declare<(...args: [...Row, topP: number]) => number>('lookout_top_p_cutoff', 'float', [
    ...ROW,
    'double',
  ])
  const sample = declare<(...args: [...Row, temperature: number, minLogit: number, drawSeed: number]) => number>(
    'lookout_sample',
    'int32',
    [...ROW, 'double', 'double', 'uint32'],
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
