import fc from 'fast-check'
import koffi from 'koffi'
import { expect, test } from 'vitest'
import { declareIn } from '../declare.ts'
import { locateNativeLibraries } from '../native-paths.ts'

/** Values of a block. */
const QK_K = 256
/** A block's scale, its values, and sums of sixteen values each. */
const [SCALE_BYTES, SUM_BYTES] = [4, 2 * (QK_K / 16)]
const BLOCK_BYTES = SCALE_BYTES + QK_K + SUM_BYTES

type Quantize = (values: Float32Array, blocks: Uint8Array, count: number) => void

const { kernels, ggmlBase, ggml } = locateNativeLibraries()

const usual = fc.float({ min: -100, max: 100, noNaN: true })
const value = fc.oneof({ weight: 8, arbitrary: usual }, fc.constantFrom(0, -0, 100, -100), fc.float())
const row = fc
  .tuple(fc.integer({ min: 1, max: 4 }), fc.constantFrom(value, fc.constant(0), fc.constantFrom(-1, 1)))
  .chain(([blocks, of]) => fc.array(of, { minLength: blocks * QK_K, maxLength: blocks * QK_K, size: 'max' }))

test.skipIf(kernels === null)('rows become the same blocks of Q8_K as in ggml', () => {
  for (const library of [ggmlBase, ggml]) koffi.load(library, { global: true })
  const declare = (library: string, name: string) =>
    declareIn(koffi.load(library))(`void ${name}(floats values, bytes blocks, int64 count)`)
  const [ours, theirs] = [declare(kernels!, 'quantize_row_q8_K'), declare(ggmlBase, 'quantize_row_q8_K_ref')]
  const blocksBy = (quantize: Quantize, values: Float32Array) => {
    const blocks = new Uint8Array((values.length / QK_K) * BLOCK_BYTES)
    quantize(values, blocks, values.length)
    return blocks
  }
  fc.assert(
    fc.property(row, (numbers) => {
      const values = Float32Array.from(numbers)
      expect(blocksBy(ours, values)).toEqual(blocksBy(theirs, values))
    }),
  )
})
