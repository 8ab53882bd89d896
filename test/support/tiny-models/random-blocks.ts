import { blockOf, TensorType, tensorBytes } from '../gguf-writer.ts'
import { randomIntegers } from './random-numbers.ts'

/** How the numbers of one quantised type are made from random bits: those of a block share a factor. */
interface Layout {
  /** Standard deviation of the numbers where the block's factor is 1. */
  readonly deviation: number
  /** Where in the block its factors are. */
  readonly at: number
  /** The block's factors, such that its numbers are `factor` times as large. */
  factors(factor: number): Buffer
}

/** Scales of the parts of a block, where it has such. */
const PART_SCALE = 32
/** Standard deviation of integers from `-levels / 2` to `levels / 2 - 1`, around 0. */
const deviationOf = (levels: number) => Math.sqrt((levels ** 2 - 1) / 12 + 0.25)

/** https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h */
const LAYOUTS = {
  Q4_0: { deviation: deviationOf(16), at: 0, factors: (factor) => halfPrecision(factor) },
  Q5_0: { deviation: deviationOf(32), at: 0, factors: (factor) => halfPrecision(factor) },
  Q8_0: { deviation: deviationOf(256), at: 0, factors: (factor) => halfPrecision(factor) },
  Q4_K: {
    deviation: PART_SCALE * Math.sqrt((16 ** 2 - 1) / 12),
    at: 0,
    // Numbers from 0 to 15 times the scale, less 7.5 times the same. Scale and minimum have six bits each.
    factors: (factor) => Buffer.concat([halfPrecision(factor, 7.5 * factor), EQUAL_PARTS]),
  },
  Q5_K: {
    deviation: PART_SCALE * Math.sqrt((32 ** 2 - 1) / 12),
    at: 0,
    factors: (factor) => Buffer.concat([halfPrecision(factor, 15.5 * factor), EQUAL_PARTS]),
  },
  Q6_K: {
    deviation: PART_SCALE * deviationOf(64),
    at: 192,
    factors: (factor) => Buffer.concat([Buffer.alloc(16, PART_SCALE), halfPrecision(factor)]),
  },
} as const satisfies Record<string, Layout>
/** Eight scales and eight minimums: of each of the last four, the upper two bits are in the bytes of the first four. */
const EQUAL_PARTS = Buffer.concat([
  Buffer.alloc(8, PART_SCALE | ((PART_SCALE >> 4) << 6)),
  Buffer.alloc(4, (PART_SCALE & 15) * 17),
])

export type Quantisation = keyof typeof LAYOUTS

export function isQuantised(type: string): type is Quantisation {
  return type in LAYOUTS
}

/** Blocks of a quantised type, of random numbers that are spread evenly around 0. */
export function randomBlocks(
  type: Quantisation,
  shape: readonly number[],
  { deviation, seed }: { readonly deviation: number; readonly seed: string },
): Buffer {
  const layout: Layout = LAYOUTS[type]
  const bytes = tensorBytes({ type: TensorType[type], shape })
  const next = randomIntegers(seed)
  const words = new Int32Array(Math.ceil(bytes / 4))
  for (let i = 0; i < words.length; i++) words[i] = next()
  const blocks = Buffer.from(words.buffer, 0, bytes)
  const factor = deviation / layout.deviation
  // There is one negative integer more than positive ones, so every other block has its signs turned over.
  const factors = [layout.factors(factor), layout.factors(-factor)]
  const step = blockOf(TensorType[type]).bytes
  for (let at = 0, block = 0; at < bytes; at += step, block++) blocks.set(factors[block % 2]!, at + layout.at)
  return blocks
}

function halfPrecision(...values: readonly number[]): Buffer {
  return Buffer.from(Float16Array.from(values).buffer)
}
