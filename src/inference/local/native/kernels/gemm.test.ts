import fc from 'fast-check'
import koffi from 'koffi'
import { describe, expect, test } from 'vitest'
import { F32, randomNumbers, sumsOf } from '../../../../../test/support/ggml-sums.ts'
import { hasFeatures, productsFor, type QuantisedProduct } from '../../../../../test/support/products-alone.ts'
import { declareIn } from '../declare.ts'
import { locateNativeLibraries } from '../native-paths.ts'

/** ggml's numbers of the types of weights, their blocks, and its functions that make them floats again. */
const TYPES = [
  { name: 'Q4_0', type: 2, block: 32, toFloats: 'dequantize_row_q4_0' },
  { name: 'Q5_0', type: 6, block: 32, toFloats: 'dequantize_row_q5_0' },
  { name: 'Q8_0', type: 8, block: 32, toFloats: 'dequantize_row_q8_0' },
  { name: 'IQ4_NL', type: 20, block: 32, toFloats: 'dequantize_row_iq4_nl' },
  { name: 'MXFP4', type: 39, block: 32, toFloats: 'dequantize_row_mxfp4' },
  { name: 'Q4_K', type: 12, block: 256, toFloats: 'dequantize_row_q4_K' },
  { name: 'Q5_K', type: 13, block: 256, toFloats: 'dequantize_row_q5_K' },
  { name: 'Q6_K', type: 14, block: 256, toFloats: 'dequantize_row_q6_K' },
] as const
type WeightType = (typeof TYPES)[number]

interface Shape {
  readonly weights: WeightType
  /** Blocks of a row. */
  readonly blocks: number
  readonly height: number
  readonly rows: number
  readonly threads: number
  readonly seed: number
}

const shapes: fc.Arbitrary<Shape> = fc.record({
  weights: fc.constantFrom(...TYPES),
  blocks: fc.integer({ min: 1, max: 9 }),
  height: fc.constantFrom(1, 15, 16, 17, 40, 128, 301),
  rows: fc.constantFrom(1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 28, 31, 64, 97),
  threads: fc.constantFrom(1, 2, 3),
  seed: fc.nat(),
})

/** Rows that are computed alone, too: of each small batch all, and the last of a large one. */
const ROWS_ALONE = [...Array(40).keys(), 504, 507, 510, 511]
/** Permitted error of f32 sums, relative to how large they usually are. */
const ROUNDING = 1e-5

const { kernels, ggmlBase, ggml } = locateNativeLibraries()

koffi.load(ggmlBase, { global: true })
koffi.load(ggml, { global: true })

const declare = declareIn(koffi.load(ggmlBase))
const rowBytes = declare('size_t ggml_row_size(int type, int64 width)')
const quantize = declare(
  `size_t ggml_quantize_chunk(int type, floats from, bytes to, int64 start, int64 rows, int64 width,
    pointer? importance)`,
)
const toFloats = new Map(
  TYPES.map(({ type, toFloats: name }) => [type, declare(`void ${name}(bytes from, floats to, int64 count)`)]),
)
const toQ8_0 = declare('void quantize_row_q8_0_ref(floats from, bytes to, int64 count)')
const toQ8_K = declare('void quantize_row_q8_K_ref(floats from, bytes to, int64 count)')
const product = declare('pointer ggml_mul_mat(pointer context, pointer a, pointer b)')
const productOfExperts = declare('pointer ggml_mul_mat_id(pointer context, pointer a, pointer b, pointer ids)')
/** Bytes of a block of 32 and of 256 values. */
const Q8_0_BYTES = 34
const Q8_K_BYTES = 292

/** Multiplies quantised weights with rows of f32. @returns [row][row of weights]. */
type Multiply = (of: Omit<QuantisedProduct, 'rows'> & { readonly values: Float32Array }) => Float32Array

const isOurs = hasFeatures('avx2', 'fma', 'f16c')
const libraries: [name: string, multiply: Multiply | null][] = [
  ["compiled for this machine's processor", kernels !== null && isOurs ? throughGgml(kernels) : null],
  ['compiled for AMX', quantised(await productsFor('AMX'))],
  ['compiled for AVX-512', quantised(await productsFor('AVX-512'))],
  ['compiled for AVX2', quantised(await productsFor('AVX2'))],
  ['compiled for AVX-VNNI', quantised(await productsFor('AVX-VNNI'))],
]

describe.each(libraries)('products of quantised weights %s', (_, compute) => {
  const multiply = (shape: Shape) => multiplyRandom(compute!, shape)

  test.skipIf(compute === null)('are those of the weights and the values', () => {
    const check = (shape: Shape) => {
      const { found, weights, values } = multiply(shape)
      const width = shape.blocks * shape.weights.block
      let furthest = 0
      /** How large a product usually is. One whose parts cancel out is smaller, but not its rounding. */
      let usual = 0
      for (let row = 0; row < shape.rows; row++) {
        for (let of = 0; of < shape.height; of++) {
          let sum = 0
          let squares = 0
          for (let d = 0; d < width; d++) {
            const part = weights[of * width + d]! * values[row * width + d]!
            sum += part
            squares += part * part
          }
          furthest = Math.max(furthest, Math.abs(sum - found[row * shape.height + of]!))
          usual = Math.max(usual, Math.sqrt(squares))
        }
      }
      expect(furthest / usual).toBeLessThan(ROUNDING)
    }
    fc.assert(fc.property(shapes, check), { numRuns: 20 })
  })

  test.skipIf(compute === null).each(TYPES)('of a row have the same bits alone and beside others: $name', (weights) => {
    // Blocks that are multiplied together, and some more; rows of weights likewise.
    for (const [blocks, height, threads] of [
      [4, 50, 1],
      [7, 33, 3],
      [8, 64, 16],
    ] as const) {
      const { product, values } = drawn({ weights, blocks, height, seed: 3, rows: 512 })
      const width = blocks * weights.block
      const valuesOf = (row: number, rows: number) => values.slice(row * width, (row + rows) * width)
      const alone = ROWS_ALONE.map(
        (row) => [row, compute!({ ...product, threads: 1, n: 1, values: valuesOf(row, 1) })] as const,
      )
      for (const rows of [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 28, 40, 512]) {
        const found = compute!({ ...product, threads, n: rows, values: valuesOf(0, rows) })
        for (const [row, expected] of alone) {
          if (row >= rows) break
          const own = found.subarray(row * height, (row + 1) * height)
          expect(Buffer.compare(bytesOf(own), bytesOf(expected)), `row ${row} of ${rows}`).toBe(0)
        }
      }
    }
  })
})

/**
 * ggml's numbers of types of weights that files have, ours and its own. Not among them are IQ1, IQ2, IQ3 and IQ4_XS: ggml has
 * another way for a batch of them.
 */
const FILE_TYPES = {
  ...{ F32: 0, F16: 1, BF16: 30, Q4_0: 2, Q4_1: 3, Q5_0: 6, Q5_1: 7, Q8_0: 8, Q2_K: 10, Q3_K: 11, Q4_K: 12, Q5_K: 13 },
  ...{ Q6_K: 14, IQ4_NL: 20, MXFP4: 39 },
}
const I32 = 26
const IQ4_XS = 23

describe.skipIf(kernels === null || !isOurs)('through ggml, a row has the same bits alone and beside others', () => {
  const [width, height, experts, used, most] = [512, 48, 5, 2, 40]
  const random = randomNumbers(9)
  const values = new Float32Array(width * most).map(() => random() - 0.5)
  const cases = Object.entries(FILE_TYPES).map(([name, type]) => {
    const numbers = new Float32Array(width * height * experts).map(() => random() - 0.5)
    const packed = new Uint8Array(rowBytes(type, width) * height * experts)
    quantize(type, numbers, packed, 0, height * experts, width, null)
    return { name, type, packed }
  })
  const sums = kernels === null ? null : sumsOf(kernels, { ggmlBase, ggml })

  test.each(cases)('$name', ({ type, packed }) => {
    const multiply = (first: number, n: number, threads: number) =>
      sums!.compute(threads, height * n, (context, filled) => {
        const weights = filled(type, [width, height], packed.subarray(0, packed.length / experts))
        return product(context, weights, filled(F32, [width, n], values.subarray(first * width, (first + n) * width)))
      })
    expectSameAlone(multiply, height, most)
  })

  test.each(cases)('$name, of several matrices, each for two of the batch', ({ type, packed }) => {
    const matrices = 4
    const multiply = (first: number, n: number, threads: number) => {
      const rows = values.subarray(first * width, (first + n) * width)
      const found = sums!.compute(threads, height * n * matrices, (context, filled) => {
        const weights = filled(type, [width, height, matrices / 2], packed.subarray(0, (packed.length / experts) * 2))
        const repeated = new Float32Array(rows.length * matrices).map((_, i) => rows[i % rows.length]!)
        return product(context, weights, filled(F32, [width, n, matrices], repeated))
      })
      const size = height * matrices
      return found.map((_, i) => {
        const [row, matrix] = [Math.floor(i / size), Math.floor((i % size) / height)]
        return found[(matrix * n + row) * height + (i % height)]!
      })
    }
    expectSameAlone(multiply, height * matrices, most)
  })

  test.each(cases)('$name, of experts', ({ type, packed }) => {
    const ids = Int32Array.from({ length: used * most }, (_, i) => (i * i + 3 * (i % used)) % experts)
    const multiply = (first: number, n: number, threads: number) =>
      sums!.compute(threads, height * used * n, (context, filled) => {
        const rows = filled(F32, [width, 1, n], values.subarray(first * width, (first + n) * width))
        const chosen = filled(I32, [used, n], ids.subarray(first * used, (first + n) * used))
        return productOfExperts(context, filled(type, [width, height, experts], packed), rows, chosen)
      })
    expectSameAlone(multiply, height * used, most)
  })

  test('those of experts have the bits of plain products', () => {
    const shape = fc.record({
      weights: fc.constantFrom(...TYPES),
      blocks: fc.integer({ min: 1, max: 5 }),
      height: fc.constantFrom(1, 17, 48),
      experts: fc.constantFrom(1, 2, 9, 32),
      used: fc.constantFrom(1, 2, 8),
      tokens: fc.constantFrom(1, 2, 5, 16, 40, 512),
      threads: fc.constantFrom(1, 2, 3, 16),
      /** Each expert of a token gets a row of its own, as after the first products. */
      isApart: fc.boolean(),
      seed: fc.nat(),
    })
    const check = ({
      weights,
      experts,
      used,
      tokens,
      threads,
      isApart,
      ...drawnShape
    }: typeof shape extends fc.Arbitrary<infer Drawn> ? Drawn : never) => {
      const { height, blocks, seed } = drawnShape
      const rowsOfToken = isApart ? used : 1
      const rows = tokens * rowsOfToken
      const stacked = drawn({ weights, blocks, height: height * experts, rows, seed })
      const width = blocks * weights.block
      const next = randomNumbers(seed)
      // Some experts are chosen by many tokens, and some by none.
      const ids = Int32Array.from({ length: used * tokens }, () => Math.floor(experts * next() ** 2))
      const found = sums!.compute(threads, height * used * tokens, (context, filled) => {
        const matrices = filled(weights.type, [width, height, experts], stacked.product.weights)
        const values = filled(F32, [width, rowsOfToken, tokens], stacked.values)
        return productOfExperts(context, matrices, values, filled(I32, [used, tokens], ids))
      })
      const plain = sums!.compute(1, height * experts * rows, (context, filled) =>
        product(
          context,
          filled(weights.type, [width, height * experts], stacked.product.weights),
          filled(F32, [width, rows], stacked.values),
        ),
      )
      for (const [at, expert] of ids.entries()) {
        const row = Math.floor(at / used) * rowsOfToken + (isApart ? at % used : 0)
        const from = (row * experts + expert) * height
        const expected = bytesOf(plain.subarray(from, from + height))
        expect(Buffer.compare(bytesOf(found.subarray(at * height, (at + 1) * height)), expected), `choice ${at}`).toBe(
          0,
        )
      }
    }
    fc.assert(fc.property(shape, check), { numRuns: 30 })
  })

  test('the kernels say when the weights are of another type', () => {
    const isInvariant = declareIn(koffi.load(kernels!))('bool lookout_is_batch_invariant()')
    expect(isInvariant()).toBe(true)
    const packed = new Uint8Array(rowBytes(IQ4_XS, width) * height)
    const numbers = new Float32Array(width * height).map(() => random() - 0.5)
    quantize(IQ4_XS, numbers, packed, 0, height, width, null)
    sums!.compute(1, height, (context, filled) =>
      product(context, filled(IQ4_XS, [width, height], packed), filled(F32, [width, 1], values.subarray(0, width))),
    )
    expect(isInvariant()).toBe(false)
  })
})

/** @param multiply computes the products of `n` rows of the batch from the `first` on, [n][size]. */
function expectSameAlone(
  multiply: (first: number, n: number, threads: number) => Float32Array,
  size: number,
  most: number,
): void {
  const alone = Buffer.concat(Array.from({ length: most }, (_, row) => Buffer.from(bytesOf(multiply(row, 1, 1)))))
  for (const [n, threads] of [
    ...([
      [1, 3],
      [2, 1],
      [3, 2],
      [4, 1],
      [5, 3],
      [8, 2],
    ] as const),
    ...([
      [12, 16],
      [16, 1],
      [28, 3],
      [most, 2],
    ] as const),
  ]) {
    const first = most - n
    const expected = alone.subarray(first * size * 4)
    expect(Buffer.compare(bytesOf(multiply(first, n, threads)), expected), `${n} rows, ${threads} threads`).toBe(0)
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array) => new Uint8Array(buffer, byteOffset, byteLength)

interface Outcome {
  /** [row][row of weights] */
  readonly found: Float32Array
  readonly weights: Float32Array
  readonly values: Float32Array
}

/** Multiplies random weights and random values. */
function multiplyRandom(compute: Multiply, { threads, rows, ...of }: Shape): Outcome {
  const { product, weights, values } = drawn({ ...of, rows })
  return { found: compute({ ...product, threads, n: rows, values }), weights, values }
}

function drawn({ weights: { type, block }, blocks, height, rows, seed }: Omit<Shape, 'threads'>) {
  const random = randomNumbers(seed)
  const width = blocks * block
  const weights = new Float32Array(width * height).map(() => random() - 0.5)
  const packed = new Uint8Array(rowBytes(type, width) * height)
  quantize(type, weights, packed, 0, height, width, null)
  toFloats.get(type)!(packed, weights, weights.length)
  // Whole numbers up to 127 are exact once ggml has rounded them to 8 bits, if each block has the largest.
  const values = new Float32Array(width * rows).map((_, i) => (i % 32 === 0 ? 127 : Math.floor(random() * 255) - 127))
  return { product: { type, m: height, blocks, weights: packed }, weights, values }
}

/** The whole library computes them, through ggml. */
function throughGgml(path: string): Multiply {
  const { compute } = sumsOf(path, { ggmlBase, ggml })
  return ({ type, threads, m, n, weights, values }) =>
    compute(threads, m * n, (context, filled) =>
      product(context, filled(type, [values.length / n, m], weights), filled(F32, [values.length / n, n], values)),
    )
}

/** Rounds the rows to the types that ggml multiplies such weights with. */
function quantised(multiply: ((of: QuantisedProduct) => Float32Array) | null): Multiply | null {
  if (multiply === null) return null
  return ({ values, ...of }) => {
    const { block } = TYPES.find(({ type }) => type === of.type)!
    const rows = new Uint8Array((values.length / block) * (block === 32 ? Q8_0_BYTES : Q8_K_BYTES))
    ;(block === 32 ? toQ8_0 : toQ8_K)(values, rows, values.length)
    return multiply({ ...of, rows })
  }
}
