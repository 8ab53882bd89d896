import { type Tensor, TensorType, type TensorTypeName } from '../gguf-writer.ts'
import { isQuantised, randomBlocks } from './random-blocks.ts'
import { normalNumbers } from './random-numbers.ts'

/** How the numbers of a tensor are drawn: normally distributed around `mean`. */
export interface Spread {
  readonly mean?: number
  readonly deviation?: number
  /** Rows that are not all zero; by default every row. */
  readonly rows?: ReadonlySet<number>
  readonly type?: WeightType
}

export type WeightType = TensorTypeName

/** In which form a tensor's numbers are written. Quantised ones are spread evenly around 0, and ignore the mean. */
export type TypeRule = (name: string, shape: readonly number[]) => WeightType

/** Owns the random tensors of a file. The same seed and names give the same numbers on every machine. */
export class Weights {
  readonly #seed: string
  readonly #typeOf: TypeRule
  readonly tensors: Tensor[] = []

  constructor(seed: string, typeOf: TypeRule = () => 'F32') {
    this.#seed = seed
    this.#typeOf = typeOf
  }

  /** @param shape innermost dimension first, as in GGUF. */
  add(name: string, shape: readonly number[], spread: Spread = {}): void {
    const { mean = 0, deviation = 1, rows, type = this.#typeOf(name, shape) } = spread
    const seed = `${this.#seed} ${name}`
    const read = () => {
      const bytes = isQuantised(type)
        ? randomBlocks(type, shape, { deviation, seed })
        : normalValues(type, shape, { mean, deviation, seed })
      if (rows !== undefined) clearOthers(bytes, shape, rows)
      return bytes
    }
    this.tensors.push({ name, shape, type: TensorType[type], read })
  }

  /** A matrix whose output varies as much as its input, times `gain`. */
  matrix(name: string, inputs: number, outputs: number, gain = 1): void {
    this.add(name, [inputs, outputs], { deviation: gain / Math.sqrt(inputs) })
  }

  /** Factors of a normalisation, around 1. */
  norm(name: string, size: number, mean = 1): void {
    this.add(name, [size], { mean, deviation: 0.1 * mean })
  }

  bias(name: string, size: number): void {
    this.add(name, [size], { deviation: 0.1 })
  }
}

function normalValues(
  type: 'F32' | 'F16' | 'BF16',
  shape: readonly number[],
  { mean, deviation, seed }: { readonly mean: number; readonly deviation: number; readonly seed: string },
): Buffer {
  const normal = normalNumbers(seed)
  const length = shape.reduce((a, b) => a * b, 1)
  const values = new Float32Array(length).map(() => mean + deviation * normal())
  if (type === 'BF16')
    return Buffer.from(new Uint16Array(new Uint32Array(values.buffer).map((bits) => bits >>> 16)).buffer)
  return Buffer.from((type === 'F16' ? Float16Array.from(values) : values).buffer)
}

/** Every type has numbers of 0 where all bits are 0. */
function clearOthers(bytes: Buffer, shape: readonly number[], rows: ReadonlySet<number>): void {
  const count = shape.slice(1).reduce((a, b) => a * b, 1)
  const rowBytes = bytes.length / count
  for (let row = 0; row < count; row++) {
    if (!rows.has(row)) bytes.fill(0, row * rowBytes, (row + 1) * rowBytes)
  }
}
