import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { F16, F32, type Handle, randomNumbers, sumsOf } from '../../../../../test/support/ggml-sums.ts'
import { halves } from '../../../../../test/support/halves.ts'
import { compileForAvx2, type HalvesProduct, hasAvx2 } from '../../../../../test/support/kernels-alone.ts'
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
  // ggml computes fewer than twelve.
  rows: fc.constantFrom(12, 13, 16, 31, 64, 71, 150),
  threads: fc.constantFrom(1, 2, 3),
  seed: fc.nat(),
})

type Multiply = (product: HalvesProduct) => Float32Array

/** Permitted error of f32 sums, relative to the largest result. */
const ROUNDING = 1e-5

const { kernels, ggmlBase, ggml } = locateNativeLibraries()
const avx2 = hasAvx2() ? await compileForAvx2() : null
/** With rows of f32 instead. */
const ofFloats =
  (multiply: Multiply): Multiply =>
  (product) =>
    multiply({ ...product, rows: new Uint8Array(Float32Array.from(new Float16Array(product.rows.buffer)).buffer) })
const libraries: [name: string, multiply: Multiply | null][] = [
  ["compiled for this machine's processor", kernels === null ? null : throughGgml(kernels, F16)],
  [
    "compiled for this machine's processor, of rows of f32",
    kernels === null ? null : ofFloats(throughGgml(kernels, F32)),
  ],
  ['compiled for AVX2', avx2?.multiply ?? null],
]

describe.each(libraries)('products of f16 %s', (_, multiply) => {
  test.skipIf(multiply === null)('are those of the weights and the values', () => {
    const check = (shape: Shape) => {
      const { width, height, rows } = shape
      const { found, weights, values } = compute(multiply!, shape)
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
    fc.assert(fc.property(shapes, check), { numRuns: 40 })
  })

  test.skipIf(multiply === null)('of a row do not depend on how many follow it', () => {
    const shape = { width: 192, height: 50, threads: 1, seed: 3 }
    const many = compute(multiply!, { ...shape, rows: 40 }).found
    for (const rows of [12, 13, 16, 39]) {
      const { found } = compute(multiply!, { ...shape, rows })
      expect([...found]).toEqual([...many.subarray(0, found.length)])
    }
  })
})

test.skipIf(kernels === null)(
  'a row has the same products beside few rows, which ggml computes, as beside many',
  () => {
    const product = throughGgml(kernels!, F32)
    const random = randomNumbers(5)
    const [m, k] = [64, 256]
    const weights = halves(Float32Array.from({ length: m * k }, () => Math.floor(random() * 256 - 128) / 64))
    // f16 represents hardly any of these.
    const values = Float32Array.from({ length: 40 * k }, () => random() - 0.5)
    const of = (n: number) =>
      product({ threads: 1, m, n, k, weights, rows: new Uint8Array(values.slice(0, n * k).buffer) })
    const [few, many] = [of(4), of(40)]
    const largest = Math.max(...many.map(Math.abs))
    few.forEach((value, i) => {
      expect(Math.abs(value - many[i]!)).toBeLessThan(ROUNDING * largest)
    })
  },
)

/** Multiplies random numbers that f16 represents exactly. */
function compute(multiply: Multiply, { width, height, rows, threads, seed }: Shape) {
  const random = randomNumbers(seed)
  const numbers = (count: number) => Float32Array.from({ length: count }, () => Math.floor(random() * 256 - 128) / 64)
  const weights = numbers(width * height)
  const values = numbers(width * rows)
  const found = multiply({
    ...{ threads, m: height, n: rows, k: width },
    weights: halves(weights),
    rows: halves(values),
  })
  return { found, weights, values }
}

/** The whole library computes it, through ggml. */
function throughGgml(path: string, type: typeof F16 | typeof F32): Multiply {
  const { declare, compute: run } = sumsOf(path, { ggmlBase, ggml })
  const product = declare<(context: Handle, a: Handle, b: Handle) => Handle>('ggml_mul_mat', 'void *', [
    ...['void *', 'void *', 'void *'],
  ])
  return ({ threads, m, n, k, weights, rows }) =>
    run(threads, m * n, (context, filled) => product(context, filled(F16, [k, m], weights), filled(type, [k, n], rows)))
}
