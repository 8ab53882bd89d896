/**
 * Products of weights and a batch of rows, alone: ours, ggml's own, and ggml's own from weights that it has rearranged; or
 * ours and those of another tree.
 */
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import koffi from 'koffi'
import { declareIn } from '../src/inference/local/native/declare.ts'
import { locateNativeLibraries } from '../src/inference/local/native/native-paths.ts'
import type { Pointer } from '../src/inference/local/native/structs.ts'
import { ggml_init_params, randomNumbers } from '../test/support/ggml-sums.ts'
import { againstTable, type Compared } from './support/against.ts'
import { type Benchmark, type BenchOptions, print } from './support/benchmark.ts'
import { kernelsFor } from './support/kernels.ts'
import { median } from './support/statistics.ts'
import { table } from './support/table.ts'

/** ggml's numbers of the types. */
const TYPES = { F32: 0, F16: 1, Q4_0: 2, Q5_0: 6, Q8_0: 8, IQ4_NL: 20, MXFP4: 39, Q4_K: 12, Q5_K: 13, Q6_K: 14 }
const I32 = 26
const ROWS = [1, 2, 4, 8, 16, 32, 128, 512]
/**
 * The first is of a model with two billion parameters, whose matrices are larger than the caches; the second of the shipped
 * one; the third of Qwen3 30B-A3B, with half of its experts.
 */
const SHAPES: readonly Shape[] = [
  { height: 4096, width: 2048, matrices: 8 },
  { height: 1024, width: 256, matrices: 12 },
  { height: 768, width: 2048, matrices: 2, experts: 64, used: 8 },
]
const THREADS = 2
/** Minimum rounds against another tree, and how long they go on for each number of rows, in ms. */
const AGAINST = { least: 12, ms: 300 }

const P = 'void *'

/**
 * Weights: `matrices` of `height` rows of `width`, multiplied one after the other; or stacks of `experts` matrices, of which
 * each row is multiplied with `used`.
 */
interface Shape {
  readonly height: number
  readonly width: number
  readonly matrices: number
  readonly experts?: number
  readonly used?: number
}

/** A product's tensors in buffers, ready to be computed. */
interface Prepared {
  /** @returns microseconds for each matrix. */
  run(): number
  free(): true
}

export const products: Benchmark = {
  summary: "products of weights alone, by type and number of rows: ours and ggml's (--processor NAME)",
  withPeer: false,
  comparesTrees: true,

  async run(options) {
    const ours = benchOf(await kernelsFor(options.processor, true))
    const { against } = options
    const other = benchOf(await (against === null ? kernelsFor(options.processor, false) : kernelsOf(against, options)))
    for (const shape of SHAPES) {
      print(against === null ? compare(ours, other, shape, options) : compareTrees(ours, other, shape, options))
    }
  },
}

/** @returns the kernels of another tree, compiled for the processor. */
async function kernelsOf(tree: string, { processor }: BenchOptions): Promise<string> {
  const module: { kernelsFor: typeof kernelsFor } = await import(
    pathToFileURL(join(tree, 'bench/support/kernels.ts')).href
  )
  return module.kernelsFor(processor, true)
}

const titleOf = ({ height, width, experts, used }: Shape, processor: string) =>
  `Products of ${experts === undefined ? 'weights' : `${used} of ${experts} experts`} of ${height} rows of ${width}, compiled for ${processor}`

function compareTrees(
  ours: Bench,
  other: Bench,
  shape: Shape,
  { processor, quick, repetitions }: BenchOptions,
): string {
  const { least, ms } = quick ? { least: 6, ms: 0 } : { ...AGAINST, least: repetitions ?? AGAINST.least }
  const rows = Object.entries(TYPES).flatMap(([name, type]) =>
    ROWS.map((count): Compared => {
      const sides = [ours, other].map((bench) => bench.prepare(type, bench.layouts[0]!, count, shape)!)
      const [now, before] = timesOf(sides, (round, started) => round >= least && performance.now() - started >= ms)
      return { row: `${name}, rows: ${count}`, now: now!, other: before! }
    }),
  )
  return againstTable(titleOf(shape, processor), `${THREADS} threads; microseconds, lower is better.`, least, rows)
}

function compare(ours: Bench, theirs: Bench, shape: Shape, { repetitions, quick, processor }: BenchOptions): string {
  const times = repetitions ?? (quick ? 3 : 9)
  // The first layout is the file's own.
  const ways: [string, Bench, Layout][] = [
    ['ours', ours, ours.layouts[0]!],
    ...theirs.layouts.map((layout, i): [string, Bench, Layout] => [i === 0 ? "ggml's" : layout.name, theirs, layout]),
  ]
  const sections = Object.entries(TYPES).map(([name, type]) => {
    const possible = ways.filter(([, bench, layout]) => bench.prepare(type, layout, 1, shape)?.free() === true)
    const rows = ROWS.map((count) => {
      const prepared = possible.map(([, bench, layout]) => bench.prepare(type, layout, count, shape)!)
      const found = timesOf(prepared, (round) => round >= times)
      return [String(count), ...found.map((of) => median(of).toFixed(0))]
    })
    return table([`${name}: rows`, ...possible.map(([of]) => of)], rows)
  })
  return `### ${titleOf(shape, processor)}

${THREADS} threads; microseconds, medians of ${times} in turn. Further columns: ggml's own from weights that it has rearranged.

${sections.join('\n')}`
}

/** Runs the products in turn, so that a slow moment of the machine meets all of them, and frees them. @returns times of each. */
function timesOf(prepared: readonly Prepared[], isEnough: (rounds: number, started: number) => boolean): number[][] {
  const found = prepared.map((): number[] => [])
  try {
    for (const { run } of prepared) run()
    const started = performance.now()
    for (let round = 0; !isEnough(round, started); round++) {
      for (const [i, { run }] of prepared.entries()) found[i]!.push(run())
    }
  } finally {
    for (const { free } of prepared) free()
  }
  return found
}

interface Layout {
  readonly name: string
  readonly type: Pointer
}

type Bench = ReturnType<typeof benchOf>

function benchOf(path: string) {
  const { ggmlBase, ggml } = locateNativeLibraries()
  for (const library of [ggmlBase, ggml]) koffi.load(library, { global: true })
  const base = declareIn(koffi.load(ggmlBase), { ggml_init_params })
  const library = koffi.load(path)
  const cpu = declareIn(library)
  const init = base('pointer ggml_init(ggml_init_params params)')
  const free = base('void ggml_free(pointer context)')
  const newTensor = base(
    'pointer ggml_new_tensor_3d(pointer context, int type, int64 width, int64 height, int64 count)',
  )
  const product = base('pointer ggml_mul_mat(pointer context, pointer a, pointer b)')
  const productOfExperts = base('pointer ggml_mul_mat_id(pointer context, pointer a, pointer b, pointer ids)')
  const newGraph = base('pointer ggml_new_graph(pointer context)')
  const expand = base('void ggml_build_forward_expand(pointer graph, pointer tensor)')
  const compute = base('int ggml_backend_graph_compute(pointer backend, pointer graph)')
  const allocate = base('pointer? ggml_backend_alloc_ctx_tensors_from_buft(pointer context, pointer type)')
  const freeBuffer = base('void ggml_backend_buffer_free(pointer buffer)')
  const set = base('void ggml_backend_tensor_set(pointer to, bytes from, size_t offset, size_t size)')
  const rowBytes = base('size_t ggml_row_size(int type, int64 width)')
  const quantize = base(
    `size_t ggml_quantize_chunk(int type, floats from, bytes to, int64 start, int64 rows, int64 width,
      pointer? importance)`,
  )
  const plain = base('pointer ggml_backend_dev_buffer_type(pointer device)')
  const nameOf = base('str ggml_backend_buft_name(pointer type)')
  const supports = base('bool ggml_backend_dev_supports_op(pointer device, pointer tensor)')
  const registry = cpu('pointer ggml_backend_cpu_reg()')()
  const device = base('pointer ggml_backend_reg_dev_get(pointer registry, size_t index)')(registry, 0)
  const backend = cpu('pointer ggml_backend_cpu_init()')()
  cpu('void ggml_backend_cpu_set_n_threads(pointer backend, int count)')(backend, THREADS)
  const layouts: Layout[] = [{ name: 'as stored', type: plain(device) }]
  const addressOf = base('pointer ggml_backend_reg_get_proc_address(pointer registry, str name)')
  const list: Pointer = koffi.call(addressOf(registry, 'ggml_backend_dev_get_extra_bufts'), koffi.proto(P, [P]), device)
  for (let i = 0; ; i++) {
    const type: Pointer = koffi.decode(list, i * koffi.sizeof(P), P)
    if (!type) break
    layouts.push({ name: nameOf(type), type })
  }

  const known = new Map<string, { numbers: Float32Array; packed: Uint8Array }>()
  /** Random weights, as numbers and as a file has them; equal ones of each expert. */
  const weightsOf = (type: number, { height, width, experts = 1 }: Shape) => {
    const key = [type, height, width].join()
    const before = known.get(key)
    if (before !== undefined) return before
    const random = randomNumbers(type)
    const numbers = Float32Array.from({ length: width * height }, () => random() - 0.5)
    const bytes = Number(rowBytes(type, width)) * height
    const packed = new Uint8Array(bytes * experts)
    quantize(type, numbers, packed, 0, height, width, null)
    for (let expert = 1; expert < experts; expert++) packed.copyWithin(expert * bytes, 0, bytes)
    known.set(key, { numbers, packed })
    return { numbers, packed }
  }

  return {
    layouts,
    /** Koffi unloads a library without references, and ggml still needs this one. */
    library,
    prepare(type: number, layout: Layout, rows: number, shape: Shape): Prepared | null {
      const { height, width, experts = 1, used } = shape
      const of = { mem_size: 2 ** 20, mem_buffer: null, no_alloc: true }
      const [weights, rest] = [init(of), init(of)]
      const matrices = Array.from({ length: shape.matrices }, () => newTensor(weights, type, width, height, experts))
      const buffers = [allocate(weights, layout.type)]
      const input =
        used === undefined ? newTensor(rest, TYPES.F32, width, rows, 1) : newTensor(rest, TYPES.F32, width, 1, rows)
      const choices = used === undefined ? null : newTensor(rest, I32, used, rows, 1)
      const results = matrices.map((matrix) =>
        choices === null ? product(rest, matrix, input) : productOfExperts(rest, matrix, input, choices),
      )
      const release = () => {
        for (const buffer of buffers) if (buffer) freeBuffer(buffer)
        free(rest)
        free(weights)
        return true as const
      }
      if (!supports(device, results[0]!)) {
        release()
        return null
      }
      buffers.push(allocate(rest, plain(device)))
      const { numbers, packed } = weightsOf(type, shape)
      for (const matrix of matrices) set(matrix, packed, 0, packed.length)
      const values = numbers.subarray(0, width * rows)
      set(input, new Uint8Array(values.buffer, values.byteOffset, values.byteLength), 0, values.byteLength)
      if (choices !== null) {
        const random = randomNumbers(rows)
        const drawn = Int32Array.from({ length: used! * rows }, (_, i) =>
          i % used! === 0 ? Math.floor(random() * experts) : 0,
        )
        // A token's experts differ.
        for (let i = 0; i < drawn.length; i++)
          if (i % used! > 0) drawn[i] = (drawn[i - 1]! + 1 + Math.floor(random() * 7)) % experts
        set(choices, new Uint8Array(drawn.buffer), 0, drawn.byteLength)
      }
      const graph = newGraph(rest)
      for (const result of results) expand(graph, result)
      return {
        run() {
          const started = performance.now()
          if (compute(backend, graph) !== 0) throw new Error('ggml computes nothing.')
          return ((performance.now() - started) / shape.matrices) * 1000
        },
        free: release,
      }
    },
  }
}
