import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { F16, F32, randomNumbers, sumsOf } from '../../../../../test/support/ggml-sums.ts'
import { halves } from '../../../../../test/support/halves.ts'
import { compileForAvx2, type FloatsProduct, hasAvx2 } from '../../../../../test/support/kernels-alone.ts'
import { locateNativeLibraries } from '../native-paths.ts'

interface Shape {
  readonly width: number
  readonly height: number
  readonly rows: number
  readonly threads: number
  readonly seed: number
}

const shapes: fc.Arbitrary<Shape> = fc.record({
  width: fc.constantFrom(8, 30, 32, 72, 192, 520, 1100),
  height: fc.constantFrom(1, 15, 16, 33, 64, 301),
  rows: fc.constantFrom(1, 2, 3, 5, 6, 7, 11, 15, 16, 28, 39, 40, 64, 71, 150),
  threads: fc.constantFrom(1, 2, 3),
  seed: fc.nat(),
})

type Multiply = (product: FloatsProduct) => Float32Array
type Type = 'f16' | 'f32'

/** Rows that are computed alone, too: of each small batch all, and the last of a large one. */
const ROWS_ALONE = [...Array(71).keys(), 504, 507, 510, 511]
/** Permitted error of f32 sums, relative to the largest result. */
const ROUNDING = 1e-5

const { kernels, ggmlBase, ggml } = locateNativeLibraries()
const avx2 = hasAvx2() ? await compileForAvx2() : null
const native = (type: Type, ofRows: number): Multiply | null =>
  kernels === null ? null : throughGgml(kernels, type === 'f16' ? F16 : F32, ofRows)
/** With rows of f32 instead of f16. */
const ofFloats = (multiply: Multiply | null): Multiply | null =>
  multiply &&
  ((product) =>
    multiply({ ...product, rows: new Uint8Array(new Float32Array(new Float16Array(product.rows.buffer)).buffer) }))
const alone = (type: Type): Multiply | null => avx2 && ((product) => avx2.multiply(type, product))
const libraries: [type: Type, name: string, multiply: Multiply | null][] = [
  ['f16', "compiled for this machine's processor", native('f16', F16)],
  ['f16', "compiled for this machine's processor, of rows of f32", ofFloats(native('f16', F32))],
  ['f16', 'compiled for AVX2', alone('f16')],
  ['f32', "compiled for this machine's processor", native('f32', F32)],
  ['f32', 'compiled for AVX2', alone('f32')],
]

describe.each(libraries)('products of %s %s', (type, _, multiply) => {
  test.skipIf(multiply === null)('are those of the weights and the values', () => {
    const check = (shape: Shape) => {
      const { width, height, rows } = shape
      const { found, weights, values } = compute(multiply!, type, shape)
      let furthest = 0
      let largest = 0
      for (let row = 0; row < rows; row++) {
        for (let of = 0; of < height; of++) {
          let sum = 0
          for (let d = 0; d < width; d++) sum += weights[of * width + d]! * values[row * width + d]!
          furthest = Math.max(furthest, Math.abs(sum - found[row * height + of]!))
          largest = Math.max(largest, Math.abs(sum))
        }
      }
      expect(furthest).toBeLessThanOrEqual(ROUNDING * largest)
    }
    fc.assert(fc.property(shapes, check), { numRuns: 15 })
  })

  test.skipIf(multiply === null)(
    'of a row have the same bits alone and beside others, with any number of threads',
    () => {
      // Shorter than a vector, no multiple of one, and longer than what is summed before the rest. No multiple of four rows.
      for (const [width, height, threads] of [
        [12, 5, 1],
        [192, 50, 3],
        [1100, 64, 2],
        [2048, 33, 16],
      ] as const) {
        const random = randomNumbers(width)
        const numbers = (count: number) =>
          packed(
            type,
            new Float32Array(count).map(() => random() - 0.5),
          )
        const weights = numbers(width * height)
        const rows = numbers(width * 512)
        const of = { m: height, k: width, weights }
        const bytes = (type === 'f16' ? 2 : 4) * width
        const alone = ROWS_ALONE.map((row) => {
          const own = rows.slice(row * bytes, (row + 1) * bytes)
          return [row, Buffer.from(multiply!({ ...of, threads: 1, n: 1, rows: own }).buffer)] as const
        })
        for (const n of [1, 2, 3, 5, 6, 7, 11, 12, 15, 16, 28, 39, 40, 64, 71, 512]) {
          const together = multiply!({ ...of, threads, n, rows: rows.slice(0, n * bytes) })
          for (const [row, expected] of alone) {
            if (row >= n) break
            const own = Buffer.from(together.buffer, row * height * 4, height * 4)
            expect(Buffer.compare(own, expected), `row ${row} of ${n}`).toBe(0)
          }
        }
      }
    },
  )
})

test.each(libraries.filter(([type]) => type === 'f32'))(
  'products of %s %s do not depend on where the columns begin in which a row is not 0',
  (type, _, multiply) => {
    if (multiply === null) return
    const random = randomNumbers(1)
    const [width, height] = [300, 40]
    const weights = new Float32Array(width * height).map(() => random() - 0.5)
    const row = new Float32Array(width).map(() => random() - 0.5)
    const of = { threads: 2, m: height, n: 1 }
    const expected = multiply({ ...of, k: width, weights: packed(type, weights), rows: packed(type, row) })
    for (const [before, after] of [
      [1, 2],
      [37, 0],
      [500, 700],
    ] as const) {
      const k = before + width + after
      const wider = new Float32Array(k * height).map(() => random() - 0.5)
      for (let at = 0; at < height; at++) wider.set(weights.subarray(at * width, (at + 1) * width), at * k + before)
      const rows = new Float32Array(k)
      rows.set(row, before)
      expect(multiply({ ...of, k, weights: packed(type, wider), rows: packed(type, rows) })).toEqual(expected)
    }
  },
)

const packed = (type: Type, numbers: Float32Array) =>
  type === 'f16' ? halves(numbers) : new Uint8Array(numbers.buffer)

/** Multiplies random numbers that f16 represents exactly. */
function compute(multiply: Multiply, type: Type, { width, height, rows, threads, seed }: Shape) {
  const random = randomNumbers(seed)
  const numbers = (count: number) => new Float32Array(count).map(() => Math.floor(random() * 256 - 128) / 64)
  const weights = numbers(width * height)
  const values = numbers(width * rows)
  const found = multiply({
    ...{ threads, m: height, n: rows, k: width },
    weights: packed(type, weights),
    rows: packed(type, values),
  })
  return { found, weights, values }
}

/** The whole library computes it, through ggml. */
function throughGgml(path: string, ofWeights: number, ofRows: number): Multiply {
  const { declare, compute: run } = sumsOf(path, { ggmlBase, ggml })
  const product = declare('pointer ggml_mul_mat(pointer context, pointer a, pointer b)')
  return ({ threads, m, n, k, weights, rows }) =>
    run(threads, m * n, (context, filled) =>
      product(context, filled(ofWeights, [k, m], weights), filled(ofRows, [k, n], rows)),
    )
}
