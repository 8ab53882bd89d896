import koffi from 'koffi'
import type { NativePaths } from '../../src/inference/local/native/native-paths.ts'
import { type Declare, declareIn } from './declare-c.ts'

/** A pointer of ggml's. */
export type Handle = unknown

/** ggml's numbers of types. */
export const F32 = 0
export const F16 = 1

const P = 'void *'
/** More than the largest shape of any test takes, which is 95 MB. Memory that is not touched costs nothing. */
const ARENA_BYTES = 256 * 2 ** 20

export interface Sums {
  /** Declares a function of libggml-base. */
  readonly declare: Declare
  /**
   * Has the kernels compute a tensor.
   * @param build makes it. `filled` makes its inputs: of up to four sizes, the innermost first, with these bytes.
   * @returns its f32 numbers, as many as `count`.
   */
  compute(
    threads: number,
    count: number,
    build: (
      context: Handle,
      filled: (type: number, sizes: readonly number[], bytes: ArrayBufferView) => Handle,
    ) => Handle,
  ): Float32Array
}

/** Sums that compiled kernels do, through ggml. */
export function sumsOf(kernels: string, { ggmlBase, ggml }: Pick<NativePaths, 'ggmlBase' | 'ggml'>): Sums {
  koffi.load(ggmlBase, { global: true })
  koffi.load(ggml, { global: true })
  const declare = declareIn(koffi.load(ggmlBase))
  const cpu = declareIn(koffi.load(kernels))
  const parameters = koffi.struct({ mem_size: 'size_t', mem_buffer: P, no_alloc: 'bool' })
  const init = declare<(of: object) => Handle>('ggml_init', P, [parameters])
  const free = declare<(context: Handle) => void>('ggml_free', 'void', [P])
  const newTensor = declare<(context: Handle, type: number, ...sizes: number[]) => Handle>('ggml_new_tensor_4d', P, [
    ...[P, 'int', 'int64', 'int64', 'int64', 'int64'],
  ])
  const dataOf = declare<(of: Handle) => Handle>('ggml_get_data', P, [P])
  const newGraph = declare<(context: Handle) => Handle>('ggml_new_graph', P, [P])
  const expand = declare<(graph: Handle, of: Handle) => void>('ggml_build_forward_expand', 'void', [P, P])
  const run = declare<(backend: Handle, graph: Handle) => number>('ggml_backend_graph_compute', 'int', [P, P])
  const freeBackend = declare<(backend: Handle) => void>('ggml_backend_free', 'void', [P])
  const newBackend = cpu<() => Handle>('ggml_backend_cpu_init', P, [])
  const setThreads = cpu<(backend: Handle, count: number) => void>('ggml_backend_cpu_set_n_threads', 'void', [P, 'int'])

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
