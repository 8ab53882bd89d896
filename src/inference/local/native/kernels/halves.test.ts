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
  readonly areHalves: boolean
  readonly threads: number
  readonly seed: number
}

const shapes: fc.Arbitrary<Shape> = fc.record({
  width: fc.constantFrom(8, 30, 32, 72, 192, 520, 1100),
  height: fc.constantFrom(1, 15, 16, 33, 64, 301),
  // ggml computes fewer than twelve.
  rows: fc.constantFrom(12, 13, 16, 31, 64, 71, 150),
  areHalves: fc.boolean(),
  threads: fc.constantFrom(1, 2, 3),
  seed: fc.nat(),
})

type Multiply = (product: HalvesProduct) => Float32Array

/** Permitted error of f32 sums, relative to the largest result. */
const ROUNDING = 1e-5

const { kernels, ggmlBase, ggml } = locateNativeLibraries()
const avx2 = hasAvx2() ? await compileForAvx2() : null
const libraries: [name: string, multiply: Multiply | null][] = [
  ["compiled for this machine's processor", kernels === null ? null : throughGgml(kernels)],
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
    const shape = { width: 192, height: 50, areHalves: false, threads: 1, seed: 3 }
    const many = compute(multiply!, { ...shape, rows: 40 }).found
    for (const rows of [12, 13, 16, 39]) {
      const { found } = compute(multiply!, { ...shape, rows })
      expect([...found]).toEqual([...many.subarray(0, found.length)])
    }
  })
})

/** Multiplies random numbers that f16 represents exactly. */
function compute(multiply: Multiply, { width, height, rows, areHalves, threads, seed }: Shape) {
  const random = randomNumbers(seed)
  const numbers = (count: number) => Float32Array.from({ length: count }, () => Math.floor(random() * 256 - 128) / 64)
  const weights = numbers(width * height)
  const values = numbers(width * rows)
  const found = multiply({
    ...{ threads, m: height, n: rows, k: width, areHalves },
    weights: halves(weights),
    rows: areHalves ? halves(values) : new Uint8Array(values.buffer),
  })
  return { found, weights, values }
}

/** The whole library computes it, through ggml. */
function throughGgml(path: string): Multiply {
  const { declare, compute: run } = sumsOf(path, { ggmlBase, ggml })
  const product = declare<(context: Handle, a: Handle, b: Handle) => Handle>('ggml_mul_mat', 'void *', [
    ...['void *', 'void *', 'void *'],
  ])
  return ({ threads, m, n, k, weights, rows, areHalves }) =>
    run(threads, m * n, (context, filled) =>
      product(context, filled(F16, [k, m], weights), filled(areHalves ? F16 : F32, [k, n], rows)),
    )
}
