import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { F32, sumsOf } from '../../../../../test/support/ggml-sums.ts'
import { compileForAvx2, hasAvx2, type KernelsAlone } from '../../../../../test/support/kernels-alone.ts'
import { locateNativeLibraries } from '../native-paths.ts'

type Functions = Pick<KernelsAlone, 'gelu' | 'geluQuick' | 'geglu'>

const { kernels, ggmlBase, ggml } = locateNativeLibraries()
const avx2 = hasAvx2() ? await compileForAvx2() : null
const libraries: [name: string, functions: Functions | null][] = [
  ["compiled for this machine's processor", kernels === null ? null : throughGgml(kernels)],
  ['compiled for AVX2', avx2],
]

const gelu = (x: number) => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * x * (1 + 0.044715 * x * x)))
const quick = (x: number) => x / (1 + Math.exp(-1.702 * x))

const numbers = fc
  .array(
    fc.oneof(
      fc.float({ min: -12, max: 12, noNaN: true }),
      fc.float({ noNaN: true, noDefaultInfinity: true, min: Math.fround(-1e30), max: Math.fround(1e30) }),
    ),
    { minLength: 1, maxLength: 70 },
  )
  .map((of) => Float32Array.from(of))

describe.each(libraries)('GELU %s', (_, functions) => {
  test.skipIf(functions === null)('follows its definition', () => {
    const near = (found: number, expected: number) =>
      expect(Math.abs(found - expected)).toBeLessThanOrEqual(2e-6 * Math.max(1, Math.abs(expected)))
    const check = (x: Float32Array) => {
      functions!.gelu(x).forEach((found, i) => void near(found, gelu(x[i]!)))
      functions!.geluQuick(x).forEach((found, i) => void near(found, quick(x[i]!)))
      const factors = x.map((_, i) => (i % 5) - 2)
      functions!.geglu(x, factors).forEach((found, i) => void near(found, gelu(x[i]!) * factors[i]!))
    }
    fc.assert(fc.property(numbers, check))
  })

  test.skipIf(functions === null)('keeps NaN, and is 0 and infinite at the ends', () => {
    const x = Float32Array.of(Number.NaN, Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY, 1)
    for (const found of [functions!.gelu(x), functions!.geluQuick(x)]) {
      expect(found[0]).toBeNaN()
      expect(found[1]).toBeCloseTo(0)
      expect(found[2]).toBe(Number.POSITIVE_INFINITY)
    }
  })
})

/** The whole library computes them, through ggml. */
function throughGgml(path: string): Functions {
  const { declare, compute } = sumsOf(path, { ggmlBase, ggml })
  const one = (name: string) => {
    const of = declare(`pointer ${name}(pointer context, pointer x)`)
    return (x: Float32Array) => compute(1, x.length, (context, filled) => of(context, filled(F32, [x.length], x)))
  }
  const both = declare('pointer ggml_geglu_split(pointer context, pointer x, pointer factors)')
  return {
    gelu: one('ggml_gelu'),
    geluQuick: one('ggml_gelu_quick'),
    geglu: (x, factors) =>
      compute(1, x.length, (context, filled) =>
        both(context, filled(F32, [x.length], x), filled(F32, [x.length], factors)),
      ),
  }
}
