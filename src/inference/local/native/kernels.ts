import koffi from 'koffi'
import { type Declare, declareIn } from './declare.ts'
import { type LogitsOperations, PLAIN_OPERATIONS } from './logits-operations.ts'

/**
 * What the compiled kernels have beyond what ggml calls. See `kernels/choice.cpp`, `kernels/clearing.cpp`,
 * `kernels/cell-order.cpp` and `kernels/product.cpp`.
 */
export interface Kernels {
  readonly operations: LogitsOperations
  /** From then on, so many threads share a row of logits: for a computer whose processor waits for a GPU. */
  shareRows(threads: number): void
  /**
   * From then on, a KV cache takes memory for cells that have been used, instead of for all of them, and keeps the order in
   * which its cells are written.
   */
  clearByReleasing(): void
  /**
   * Whether they compute products of quantised weights from the weights as the file has them. ggml need not rearrange
   * those then, which would take as much memory again.
   */
  readonly computesProducts: boolean
  /** Whether a row has had the same bits in any batch, in all that was computed so far. */
  isInvariant(): boolean
}

export function bindKernels(path: string): Kernels {
  const declare = declareIn(koffi.load(path))
  return {
    operations: bindOperations(declare),
    shareRows: declare<Kernels['shareRows']>('lookout_share_rows', 'void', ['int32']),
    clearByReleasing: declare<Kernels['clearByReleasing']>('lookout_clear_by_releasing', 'void', []),
    computesProducts: declare<() => boolean>('lookout_computes_products', 'bool', [])(),
    isInvariant: declare<() => boolean>('lookout_is_invariant', 'bool', []),
  }
}

type Row = readonly [logits: Float32Array, count: number, mask: Int32Array | null]

/** The functions of `kernels/choice.cpp`. */
export function bindOperations(declare: Declare): LogitsOperations {
  const ROW = ['void *', 'int32', 'void *']
  const likeliest = declare<(...row: Row) => number>('lookout_likeliest', 'int32', ROW)
  const largest = declare<(...args: [...Row, most: number, tokens: Int32Array]) => number>('lookout_largest', 'int32', [
    ...ROW,
    'int32',
    'void *',
  ])
  const logSum = declare<(...row: Row) => number>('lookout_log_sum', 'double', ROW)
  const nucleus = declare<(...args: [...Row, share: number]) => number>('lookout_nucleus', 'float', [...ROW, 'double'])
  const draw = declare<(...args: [...Row, temperature: number, least: number, place: number]) => number>(
    'lookout_draw',
    'int32',
    [...ROW, 'double', 'double', 'uint32'],
  )
  const rowOf = (logits: Float32Array, allowed?: Int32Array): Row => [logits, logits.length, allowed ?? null]
  return {
    likeliest: (logits, allowed) => {
      const token = likeliest(...rowOf(logits, allowed))
      return token < 0 ? PLAIN_OPERATIONS.likeliest(logits, allowed) : token
    },
    largest: (logits, most, allowed) => {
      const tokens = new Int32Array(Math.min(most, logits.length))
      return tokens.subarray(0, largest(...rowOf(logits, allowed), tokens.length, tokens))
    },
    logSum: (logits, allowed) => logSum(...rowOf(logits, allowed)),
    nucleus: (logits, share, allowed) => nucleus(...rowOf(logits, allowed), share),
    draw: (logits, { temperature, least, place }, allowed) => {
      const token = draw(...rowOf(logits, allowed), temperature, least, place)
      return token < 0 ? null : token
    },
  }
}
