import fc from 'fast-check'
import koffi from 'koffi'
import { describe, expect, test } from 'vitest'
import {
  type AttentionData,
  type AttentionShape,
  compileForAvx2,
  hasAvx2,
} from '../../../../../test/support/attention-alone.ts'
import { declareIn } from '../declare.ts'
import { locateNativeLibraries } from '../native-paths.ts'

interface Shape {
  /** How keys and values are stored. */
  readonly stored: 'f16' | 'q8_0'
  readonly width: number
  readonly keyHeads: number
  /** Query heads that read one key head. */
  readonly group: number
  readonly rows: number
  readonly cells: number
  readonly streams: number
  readonly threads: number
  /** Share of the cells that a row can see. */
  readonly seen: number
  readonly seed: number
}

interface Outcome {
  /** [stream][row][head][width] */
  readonly found: Float32Array
  /** The same for one row and head, computed from the definition. */
  expected(stream: number, row: number, head: number): number[]
}

type Compute = (shape: AttentionShape, data: AttentionData) => void

const shapes: fc.Arbitrary<Shape> = fc.record({
  stored: fc.constant<'f16'>('f16'),
  width: fc.constantFrom(16, 64, 80, 96, 128, 256),
  keyHeads: fc.integer({ min: 1, max: 3 }),
  group: fc.constantFrom(1, 2, 3, 7, 32),
  rows: fc.constantFrom(1, 2, 5, 16, 33, 70),
  cells: fc.constantFrom(16, 256, 1280),
  streams: fc.constantFrom(1, 1, 2),
  threads: fc.constantFrom(1, 2, 3),
  seen: fc.constantFrom(0.02, 0.5, 1),
  seed: fc.nat(),
})

const shapesOfBlocks: fc.Arbitrary<Shape> = fc
  .tuple(shapes, fc.constantFrom(32, 64, 96, 128, 256))
  .map(([shape, width]) => ({ ...shape, width, stored: 'q8_0' }))

/** Permitted error of f32 sums, relative to the largest result. */
const ROUNDING = 1e-4
const CHECKED = 6
const F32 = 0
const F16 = 1
const Q8_0 = 8
/** Numbers in a block of Q8_0. */
const BLOCK = 32
const HIDDEN = 0xfc00
const ARENA_BYTES = 64 * 2 ** 20

const { kernels, ggmlBase, ggml } = locateNativeLibraries()

const avx2 = hasAvx2() ? await compileForAvx2() : null
const libraries: [name: string, compute: Compute | null][] = [
  ["compiled for this machine's processor", kernels === null ? null : throughGgml(kernels)],
  ['compiled for AVX2', avx2],
]

describe.each(libraries)('attention %s', (_, compute) => {
  test.skipIf(compute === null).each([
    ['f16', shapes],
    ['q8_0', shapesOfBlocks],
  ] as const)('over %s is the weighted mean of the values that a row can see', (_, some) => {
    const check = (shape: Shape) => {
      const { width, rows, group, keyHeads, streams, seed } = shape
      const { found, expected } = attend(compute!, shape)
      const heads = keyHeads * group
      const random = randomNumbers(seed)
      const below = (limit: number) => Math.floor(random() * limit)
      for (let n = 0; n < CHECKED; n++) {
        const [stream, row, head] = [below(streams), below(rows), below(heads)]
        const truth = expected(stream, row, head)
        const at = ((stream * rows + row) * heads + head) * width
        const largest = Math.max(...truth.map(Math.abs))
        const furthest = Math.max(...truth.map((value, d) => Math.abs(value - found[at + d]!)))
        expect(furthest / largest).toBeLessThan(ROUNDING)
      }
    }
    fc.assert(fc.property(some, check), { numRuns: 16 })
  })

  test.skipIf(compute === null)('of a row does not depend on the other rows of the batch', () => {
    const shape = {
      stored: 'f16',
      width: 64,
      keyHeads: 1,
      group: 1,
      cells: 512,
      streams: 1,
      threads: 1,
      seen: 0.3,
      seed: 7,
    } as const
    const together = attend(compute!, { ...shape, rows: 40 }).found
    const alone = attend(compute!, { ...shape, rows: 1 }).found
    expect([...alone]).toEqual([...together.subarray(0, alone.length)])
  })
})

/** Computes a shape's random queries over its random cells. */
function attend(compute: Compute, shape: Shape): Outcome {
  const { stored, width, keyHeads, group, rows, cells, streams, threads, seen, seed } = shape
  const heads = keyHeads * group
  let tensors = 0
  const numbers = (count: number, value: (random: () => number, i: number) => number) => {
    const random = randomNumbers(seed + ++tensors)
    return Float32Array.from({ length: count }, (_, i) => value(random, i))
  }
  const exact = stored === 'f16' ? exactInHalf : exactInBlock
  const keys = numbers(width * cells * keyHeads * streams, exact)
  const values = numbers(width * cells * keyHeads * streams, exact)
  // Cells are hidden in whole blocks, like those of other sequences, and singly. All rows see the first cell.
  const mask = numbers(cells * rows * streams, (random, i) => {
    if (i % cells === 0) return 0
    return Math.floor(i / 64) % 3 === 1 || random() >= seen ? Number.NEGATIVE_INFINITY : 0
  })
  const queries = numbers(width * rows * heads * streams, (random) => random() * 2 - 1)
  const found = new Float32Array(queries.length)
  const scale = width ** -0.5
  const [type, pack] = stored === 'f16' ? [F16, halves] : [Q8_0, blocks]
  compute(
    { type, width, rows, heads, key_heads: keyHeads, cells, streams, threads },
    { scale, queries, keys: pack(keys), values: pack(values), mask: halves(mask), out: found },
  )
  const expected = (stream: number, row: number, head: number) => {
    const row0 = (stream * keyHeads + Math.floor(head / group)) * cells
    const query = ((stream * heads + head) * rows + row) * width
    const scores = Array.from({ length: cells }, (_, cell) => {
      let dot = 0
      for (let d = 0; d < width; d++) dot += queries[query + d]! * keys[(row0 + cell) * width + d]!
      return dot * scale + mask[(stream * rows + row) * cells + cell]!
    })
    const highest = Math.max(...scores)
    const weights = scores.map((score) => Math.exp(score - highest))
    const total = weights.reduce((a, b) => a + b)
    return Array.from({ length: width }, (_, d) =>
      weights.reduce((sum, weight, cell) => sum + (weight / total) * values[(row0 + cell) * width + d]!, 0),
    )
  }
  return { found, expected }
}

/** The whole library computes it, through ggml. */
function throughGgml(path: string): Compute {
  koffi.load(ggmlBase, { global: true })
  koffi.load(ggml, { global: true })
  const base = declareIn(koffi.load(ggmlBase))
  const cpu = declareIn(koffi.load(path))
  type Handle = unknown
  const p = 'void *'
  const parameters = koffi.struct({ mem_size: 'size_t', mem_buffer: p, no_alloc: 'bool' })
  const init = base<(of: object) => Handle>('ggml_init', p, [parameters])
  const free = base<(context: Handle) => void>('ggml_free', 'void', [p])
  const sizesOf4 = ['int64', 'int64', 'int64', 'int64']
  const newTensor = base<(context: Handle, type: number, ...sizes: number[]) => Handle>('ggml_new_tensor_4d', p, [
    ...[p, 'int', ...sizesOf4],
  ])
  const dataOf = base<(of: Handle) => Handle>('ggml_get_data', p, [p])
  const attention = base<(...args: unknown[]) => Handle>('ggml_flash_attn_ext', p, [
    ...[p, p, p, p, p, 'float', 'float', 'float'],
  ])
  const newGraph = base<(context: Handle) => Handle>('ggml_new_graph', p, [p])
  const expand = base<(graph: Handle, of: Handle) => void>('ggml_build_forward_expand', 'void', [p, p])
  const compute = base<(backend: Handle, graph: Handle) => number>('ggml_backend_graph_compute', 'int', [p, p])
  const freeBackend = base<(backend: Handle) => void>('ggml_backend_free', 'void', [p])
  const newBackend = cpu<() => Handle>('ggml_backend_cpu_init', p, [])
  const setThreads = cpu<(backend: Handle, count: number) => void>('ggml_backend_cpu_set_n_threads', 'void', [p, 'int'])

  return ({ type, width, rows, heads, key_heads, cells, streams, threads }, data) => {
    const context = init({ mem_size: ARENA_BYTES, mem_buffer: null, no_alloc: false })
    const backend = newBackend()
    try {
      const filled = (of: number, sizes: number[], from: Float32Array | Uint8Array) => {
        const tensor = newTensor(context, of, ...sizes)
        const bytes = new Uint8Array(from.buffer, from.byteOffset, from.byteLength)
        new Uint8Array(koffi.view(dataOf(tensor), bytes.length)).set(bytes)
        return tensor
      }
      const inputs = [
        filled(F32, [width, rows, heads, streams], data.queries),
        filled(type, [width, cells, key_heads, streams], data.keys),
        filled(type, [width, cells, key_heads, streams], data.values),
        filled(F16, [cells, rows, 1, streams], data.mask),
      ]
      const result = attention(context, ...inputs, data.scale, 0, 0)
      const graph = newGraph(context)
      expand(graph, result)
      setThreads(backend, threads)
      expect(compute(backend, graph)).toBe(0)
      data.out.set(new Float32Array(koffi.view(dataOf(result), data.out.byteLength)))
    } finally {
      freeBackend(backend)
      free(context)
    }
  }
}

function halves(numbers: Float32Array): Uint8Array {
  return new Uint8Array(Uint16Array.from(numbers, half).buffer)
}

/** Blocks of 32 numbers of 8 bits, behind a factor in f16. */
function blocks(numbers: Float32Array): Uint8Array {
  const packed = new DataView(new ArrayBuffer((numbers.length / BLOCK) * (BLOCK + 2)))
  for (let block = 0; block * BLOCK < numbers.length; block++) {
    const at = block * (BLOCK + 2)
    const factor = blockFactor(block)
    packed.setUint16(at, half(factor), true)
    for (let i = 0; i < BLOCK; i++) packed.setInt8(at + 2 + i, numbers[block * BLOCK + i]! / factor)
  }
  return new Uint8Array(packed.buffer)
}

/** A power of two. */
function blockFactor(block: number): number {
  return 2 ** -(5 + (block % 4))
}

/** A number that has 8 bits in the block where it stands. */
function exactInBlock(random: () => number, i: number): number {
  return Math.floor(random() * 256 - 128) * blockFactor(Math.floor(i / BLOCK))
}

/** Pseudo-random numbers between 0 and 1 (xorshift). */
function randomNumbers(seed: number): () => number {
  let state = (seed | 0) ^ 0x9e3779b9 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}

/** A number between -2 and 2 that f16 represents exactly. */
function exactInHalf(random: () => number): number {
  return Math.floor(random() * 256 - 128) / 64
}

/** The bits of a number as an f16; the number must be representable. */
function half(value: number): number {
  if (value === Number.NEGATIVE_INFINITY) return HIDDEN
  if (value === 0) return 0
  const [bits] = new Uint32Array(new Float32Array([value]).buffer)
  return ((bits! >>> 16) & 0x8000) | ((((bits! >>> 23) & 0xff) - 127 + 15) << 10) | ((bits! >>> 13) & 0x3ff)
}
