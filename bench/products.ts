/**
 * Products of quantised weights and a batch of rows, alone: ours, ggml's own, and ggml's own from weights that it has
 * rearranged.
 */
import koffi from 'koffi'
import { locateNativeLibraries } from '../src/inference/local/native/native-paths.ts'
import { declareIn } from '../test/support/declare-c.ts'
import { randomNumbers } from '../test/support/ggml-sums.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { kernelsFor } from './support/kernels.ts'
import { median } from './support/statistics.ts'
import { table } from './support/table.ts'

/** ggml's numbers of the types. */
const TYPES = { Q4_0: 2, Q5_0: 6, Q8_0: 8, Q4_K: 12, Q5_K: 13, Q6_K: 14 }
const F32 = 0
const ROWS = [1, 2, 4, 8, 16, 32, 128, 512]
const WIDTH = 2048
const HEIGHT = 4096
/** Matrices that follow each other, together larger than the caches of a core. */
const MATRICES = 8
const THREADS = 2

const P = 'void *'
type Handle = unknown

/** A product's tensors in buffers, ready to be computed. */
interface Prepared {
  /** @returns milliseconds for each matrix. */
  run(): number
  free(): true
}

export const products: Benchmark = {
  summary: "products of quantised weights alone, by type and number of rows: ours and ggml's (--processor NAME)",
  withPeer: false,

  async run(options) {
    print(await compare(options))
  },
}

async function compare({ repetitions, quick, processor }: BenchOptions): Promise<string> {
  const benches = [benchOf(await kernelsFor(processor, true)), benchOf(await kernelsFor(processor, false))] as const
  const times = repetitions ?? (quick ? 3 : 9)
  // The first layout is the file's own.
  const [ours, theirs] = benches
  const ways: [string, Bench, Layout][] = [
    ['ours', ours, ours.layouts[0]!],
    ...theirs.layouts.map((layout, i): [string, Bench, Layout] => [i === 0 ? "ggml's" : layout.name, theirs, layout]),
  ]
  const tables = Object.entries(TYPES).map(([name, type]) => {
    const possible = ways.filter(([, bench, layout]) => bench.prepare(type, layout, 1)?.free() === true)
    return { name, type, possible }
  })
  const sections = tables.map(({ name, type, possible }) => {
    const rows = ROWS.map((count) => {
      const prepared = possible.map(([, bench, layout]) => bench.prepare(type, layout, count)!)
      const found = prepared.map((): number[] => [])
      try {
        for (const { run } of prepared) run()
        // In turn, so that a slow moment of the machine meets all of them.
        for (let time = 0; time < times; time++) for (const [i, { run }] of prepared.entries()) found[i]!.push(run())
      } finally {
        for (const { free } of prepared) free()
      }
      return [String(count), ...found.map((of) => median(of).toFixed(2))]
    })
    return table([`${name}: rows`, ...possible.map(([of]) => of)], rows)
  })
  return `### Products, compiled for ${processor}

Weights of ${HEIGHT} rows of ${WIDTH}, ${THREADS} threads; milliseconds, medians of ${times} in turn. Further columns: ggml's own from weights that it has rearranged.

${sections.join('\n')}`
}

interface Layout {
  readonly name: string
  readonly type: Handle
}

type Bench = ReturnType<typeof benchOf>

function benchOf(path: string) {
  const { ggmlBase, ggml } = locateNativeLibraries()
  for (const library of [ggmlBase, ggml]) koffi.load(library, { global: true })
  const base = declareIn(koffi.load(ggmlBase))
  const library = koffi.load(path)
  const cpu = declareIn(library)
  const parameters = koffi.struct({ mem_size: 'size_t', mem_buffer: P, no_alloc: 'bool' })
  const init = base<(of: object) => Handle>('ggml_init', P, [parameters])
  const free = base<(context: Handle) => void>('ggml_free', 'void', [P])
  const newTensor = base<(...of: unknown[]) => Handle>('ggml_new_tensor_2d', P, [P, 'int', 'int64', 'int64'])
  const product = base<(context: Handle, a: Handle, b: Handle) => Handle>('ggml_mul_mat', P, [P, P, P])
  const newGraph = base<(context: Handle) => Handle>('ggml_new_graph', P, [P])
  const expand = base<(graph: Handle, of: Handle) => void>('ggml_build_forward_expand', 'void', [P, P])
  const compute = base<(backend: Handle, graph: Handle) => number>('ggml_backend_graph_compute', 'int', [P, P])
  const allocate = base<(context: Handle, type: Handle) => Handle>('ggml_backend_alloc_ctx_tensors_from_buft', P, [
    P,
    P,
  ])
  const freeBuffer = base<(buffer: Handle) => void>('ggml_backend_buffer_free', 'void', [P])
  const set = base<(of: Handle, from: ArrayBufferView, at: number, size: number) => void>(
    'ggml_backend_tensor_set',
    'void',
    [...[P, P, 'size_t', 'size_t']],
  )
  const rowBytes = base<(type: number, width: number) => number>('ggml_row_size', 'size_t', ['int', 'int64'])
  const quantize = base<(...of: unknown[]) => number>('ggml_quantize_chunk', 'size_t', [
    ...['int', P, P, 'int64', 'int64', 'int64', P],
  ])
  const plain = base<(device: Handle) => Handle>('ggml_backend_dev_buffer_type', P, [P])
  const nameOf = base<(type: Handle) => string>('ggml_backend_buft_name', 'str', [P])
  const supports = base<(device: Handle, of: Handle) => boolean>('ggml_backend_dev_supports_op', 'bool', [P, P])
  const device = base<(registry: Handle, index: number) => Handle>('ggml_backend_reg_dev_get', P, [P, 'size_t'])(
    cpu<() => Handle>('ggml_backend_cpu_reg', P, [])(),
    0,
  )
  const backend = cpu<() => Handle>('ggml_backend_cpu_init', P, [])()
  cpu<(backend: Handle, count: number) => void>('ggml_backend_cpu_set_n_threads', 'void', [P, 'int'])(backend, THREADS)
  const layouts: Layout[] = [{ name: 'as stored', type: plain(device) }]
  const addressOf = base<(registry: Handle, name: string) => Handle>('ggml_backend_reg_get_proc_address', P, [P, 'str'])
  const list: Handle = koffi.call(
    addressOf(cpu<() => Handle>('ggml_backend_cpu_reg', P, [])(), 'ggml_backend_dev_get_extra_bufts'),
    koffi.proto(P, [P]),
    device,
  )
  for (let i = 0; ; i++) {
    const type: Handle = koffi.decode(list, i * koffi.sizeof(P), P)
    if (!type) break
    layouts.push({ name: nameOf(type), type })
  }

  const known = new Map<number, { numbers: Float32Array; packed: Uint8Array }>()
  /** Random weights, as numbers and as a file has them. */
  const weightsOf = (type: number) => {
    const before = known.get(type)
    if (before !== undefined) return before
    const random = randomNumbers(type)
    const numbers = Float32Array.from({ length: WIDTH * HEIGHT }, () => random() - 0.5)
    const packed = new Uint8Array(Number(rowBytes(type, WIDTH)) * HEIGHT)
    quantize(type, numbers, packed, 0, HEIGHT, WIDTH, null)
    known.set(type, { numbers, packed })
    return { numbers, packed }
  }

  return {
    layouts,
    /** Koffi unloads a library without references, and ggml still needs this one. */
    library,
    prepare(type: number, layout: Layout, rows: number): Prepared | null {
      const of = { mem_size: 2 ** 20, mem_buffer: null, no_alloc: true }
      const [weights, rest] = [init(of), init(of)]
      const matrices = Array.from({ length: MATRICES }, () => newTensor(weights, type, WIDTH, HEIGHT))
      const buffers = [allocate(weights, layout.type)]
      const input = newTensor(rest, F32, WIDTH, rows)
      const results = matrices.map((matrix) => product(rest, matrix, input))
      const release = () => {
        for (const buffer of buffers) if (buffer) freeBuffer(buffer)
        free(rest)
        free(weights)
        return true as const
      }
      if (!supports(device, results[0])) {
        release()
        return null
      }
      buffers.push(allocate(rest, plain(device)))
      const { numbers, packed } = weightsOf(type)
      for (const matrix of matrices) set(matrix, packed, 0, packed.length)
      const values = numbers.subarray(0, WIDTH * rows)
      set(input, values, 0, values.byteLength)
      const graph = newGraph(rest)
      for (const result of results) expand(graph, result)
      return {
        run() {
          const started = performance.now()
          if (compute(backend, graph) !== 0) throw new Error('ggml computes nothing.')
          return (performance.now() - started) / MATRICES
        },
        free: release,
      }
    },
  }
}
