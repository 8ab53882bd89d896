import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { F16, F32, type Handle, randomNumbers, sumsOf } from '../../../../../test/support/ggml-sums.ts'
import { half, halves } from '../../../../../test/support/halves.ts'
import {
  type AttentionData,
  type AttentionShape,
  compileForAvx2,
  hasAvx2,
} from '../../../../../test/support/kernels-alone.ts'
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
  /**
   * Share of the cells that a row can see; `apart` where each row sees other cells than the one before it, like sequences
   * with nothing in common; null where there is no mask, as in image encoders.
   */
  readonly seen: number | 'apart' | null
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
  keyHeads: fc.constantFrom(1, 2, 3, 4, 8),
  group: fc.constantFrom(1, 2, 3, 7, 32),
  rows: fc.constantFrom(1, 2, 5, 16, 33, 70),
  cells: fc.constantFrom(16, 256, 1280),
  streams: fc.constantFrom(1, 1, 2),
  threads: fc.constantFrom(1, 2, 3),
  seen: fc.constantFrom<number | 'apart'>(0.02, 0.1, 0.5, 1, 'apart'),
  seed: fc.nat(),
})

const shapesOfBlocks: fc.Arbitrary<Shape> = fc
  .tuple(shapes, fc.constantFrom(32, 64, 96, 128, 256))
  .map(([shape, width]) => ({ ...shape, width, stored: 'q8_0' }))

const shapesOfEncoders: fc.Arbitrary<Shape> = fc
  .tuple(
    shapes,
    fc.constantFrom(24, 32, 64, 72, 80, 256),
    fc.constantFrom(1, 2),
    fc.constantFrom(8, 9, 13, 70, 300),
    fc.constantFrom(1, 31, 256, 700),
  )
  .map(([shape, width, group, rows, cells]) => ({ ...shape, width, group, rows, cells, seen: null }))

/** Permitted error of f32 sums, relative to the largest result. */
const ROUNDING = 1e-4
const CHECKED = 6
/** Rows that see other cells than each other, before those of the first are seen again. */
const APART = 5
const Q8_0 = 8
/** Numbers in a block of Q8_0. */
const BLOCK = 32

const { kernels, ggmlBase, ggml } = locateNativeLibraries()

const avx2 = hasAvx2() ? await compileForAvx2() : null
const libraries: [name: string, compute: Compute | null][] = [
  ["compiled for this machine's processor", kernels === null ? null : throughGgml(kernels)],
  ['compiled for AVX2', avx2?.attend ?? null],
]

describe.each(libraries)('attention %s', (_, compute) => {
  test.skipIf(compute === null).each([
    ['f16', shapes],
    ['q8_0', shapesOfBlocks],
    ['f16 without a mask', shapesOfEncoders],
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

  const alone = [
    [1, 1, 1],
    [4, 2, 1],
    [4, 2, 3],
    [8, 2, 3],
  ] as const
  const others = alone.flatMap((sizes) => [[...sizes, 0.3] as const, [...sizes, 'apart'] as const])
  test.skipIf(compute === null).each(others)(
    'of a row does not depend on the other rows of the batch: %i key heads, %i queries for each, %i threads, seen: %s',
    (keyHeads, group, threads, seen) => {
      const sizes = { stored: 'f16', width: 64, cells: 512, streams: 1 } as const
      const shape = { ...sizes, keyHeads, group, threads, seen, seed: 7 }
      const together = attend(compute!, { ...shape, rows: 40 }).found
      const alone = attend(compute!, { ...shape, rows: 1 }).found
      expect([...alone]).toEqual([...together.subarray(0, alone.length)])
    },
  )
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
    if (seen === null || i % cells === 0) return 0
    if (seen === 'apart') {
      const [row, cell] = [Math.floor(i / cells) % rows, i % cells]
      return Math.floor((cell * APART) / cells) === row % APART ? 0 : Number.NEGATIVE_INFINITY
    }
    return Math.floor(i / 64) % 3 === 1 || random() >= seen ? Number.NEGATIVE_INFINITY : 0
  })
  const queries = new Float32Array(width * rows * heads * streams)
  for (let row = 0; row < rows; row++) {
    // A row's queries are the same, however many there are.
    const random = randomNumbers(seed + 100 + row)
    for (let head = 0; head < heads * streams; head++) {
      for (let d = 0; d < width; d++) queries[(head * rows + row) * width + d] = random() * 2 - 1
    }
  }
  const found = new Float32Array(queries.length)
  const scale = width ** -0.5
  const [type, pack] = stored === 'f16' ? [F16, halves] : [Q8_0, blocks]
  compute(
    { type, width, rows, heads, key_heads: keyHeads, cells, streams, threads },
    { scale, queries, keys: pack(keys), values: pack(values), mask: seen === null ? null : halves(mask), out: found },
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
  const { declare, compute } = sumsOf(path, { ggmlBase, ggml })
  const p = 'void *'
  const attention = declare<(...args: unknown[]) => Handle>('ggml_flash_attn_ext', p, [
    ...[p, p, p, p, p, 'float', 'float', 'float'],
  ])
  return ({ type, width, rows, heads, key_heads, cells, streams, threads }, data) => {
    const found = compute(threads, data.out.length, (context, filled) =>
      attention(
        context,
        filled(F32, [width, rows, heads, streams], data.queries),
        filled(type, [width, cells, key_heads, streams], data.keys),
        filled(type, [width, cells, key_heads, streams], data.values),
        data.mask === null ? null : filled(F16, [cells, rows, 1, streams], data.mask),
        data.scale,
        0,
        0,
      ),
    )
    data.out.set(found)
  }
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

/** A number between -2 and 2 that f16 represents exactly. */
function exactInHalf(random: () => number): number {
  return Math.floor(random() * 256 - 128) / 64
}
