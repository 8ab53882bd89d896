import koffi from 'koffi'
import { type Declare, declareIn } from '../../src/inference/local/native/declare.ts'
import type { NativePaths } from '../../src/inference/local/native/native-paths.ts'
import type { Pointer } from '../../src/inference/local/native/structs.ts'

/** ggml's numbers of types. */
export const F32 = 0
export const F16 = 1

export const ggml_init_params = koffi.struct({ mem_size: 'size_t', mem_buffer: 'void *', no_alloc: 'bool' })
/** More than the largest shape of any test takes, which is 95 MB. Memory that is not touched costs nothing. */
const ARENA_BYTES = 256 * 2 ** 20

export interface Sums {
  /** Declares a function of libggml-base. */
  readonly declare: Declare<'ggml_init_params'>
  /**
   * Has the kernels compute a tensor.
   * @param build makes it. `filled` makes its inputs: of up to four sizes, the innermost first, with these bytes.
   * @returns its f32 numbers, as many as `count`.
   */
  compute(
    threads: number,
    count: number,
    build: (
      context: Pointer,
      filled: (type: number, sizes: readonly number[], bytes: ArrayBufferView) => Pointer,
    ) => Pointer,
  ): Float32Array
}

/** Sums that compiled kernels do, through ggml. */
export function sumsOf(kernels: string, { ggmlBase, ggml }: Pick<NativePaths, 'ggmlBase' | 'ggml'>): Sums {
  koffi.load(ggmlBase, { global: true })
  koffi.load(ggml, { global: true })
  const declare = declareIn(koffi.load(ggmlBase), { ggml_init_params })
  const cpu = declareIn(koffi.load(kernels))
  const init = declare('pointer ggml_init(ggml_init_params params)')
  const free = declare('void ggml_free(pointer context)')
  const newTensor = declare('pointer ggml_new_tensor_4d(pointer context, int type, int64 a, int64 b, int64 c, int64 d)')
  const dataOf = declare('pointer ggml_get_data(pointer tensor)')
  const newGraph = declare('pointer ggml_new_graph(pointer context)')
  const expand = declare('void ggml_build_forward_expand(pointer graph, pointer tensor)')
  const run = declare('int ggml_backend_graph_compute(pointer backend, pointer graph)')
  const freeBackend = declare('void ggml_backend_free(pointer backend)')
  const newBackend = cpu('pointer ggml_backend_cpu_init()')
  const setThreads = cpu('void ggml_backend_cpu_set_n_threads(pointer backend, int count)')

  return {
    declare,
    compute(threads, count, build) {
      const context = init({ mem_size: ARENA_BYTES, mem_buffer: null, no_alloc: false })
      const backend = newBackend()
      try {
        const result = build(context, (type, sizes, { buffer, byteOffset, byteLength }) => {
          const [a = 1, b = 1, c = 1, d = 1] = sizes
          const tensor = newTensor(context, type, a, b, c, d)
          new Uint8Array(koffi.view(dataOf(tensor), byteLength)).set(new Uint8Array(buffer, byteOffset, byteLength))
          return tensor
        })
        const graph = newGraph(context)
        expand(graph, result)
        setThreads(backend, threads)
        const code = run(backend, graph)
        if (code !== 0) throw new Error(`ggml computes nothing (code ${code}).`)
        return new Float32Array(koffi.view(dataOf(result), 4 * count)).slice()
      } finally {
        freeBackend(backend)
        free(context)
      }
    },
  }
}

/** Pseudo-random numbers between 0 and 1 (xorshift). */
export function randomNumbers(seed: number): () => number {
  let state = (seed | 0) ^ 0x9e3779b9 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}
