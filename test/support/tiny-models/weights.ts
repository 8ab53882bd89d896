import { type Tensor, TensorType } from '../gguf-writer.ts'

/** How the numbers of a tensor are drawn: normally distributed around `mean`. */
export interface Spread {
  readonly mean?: number
  readonly deviation?: number
  /** Rows that are not all zero; by default every row. */
  readonly rows?: ReadonlySet<number>
  readonly type?: 'F32' | 'F16'
}

/** Owns the random tensors of a file. The same seed and names give the same numbers on every machine. */
export class Weights {
  readonly #seed: string
  readonly tensors: Tensor[] = []

  constructor(seed: string) {
    this.#seed = seed
  }

  /** @param shape innermost dimension first, as in GGUF. */
  add(name: string, shape: readonly number[], { mean = 0, deviation = 1, rows, type = 'F32' }: Spread = {}): void {
    const read = () => {
      const normal = normalNumbers(`${this.#seed} ${name}`)
      const width = shape[0]!
      const values = Float32Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => mean + deviation * normal())
      if (rows !== undefined) {
        for (let row = 0; row * width < values.length; row++) {
          if (!rows.has(row)) values.fill(0, row * width, (row + 1) * width)
        }
      }
      return Buffer.from((type === 'F16' ? Float16Array.from(values) : values).buffer)
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

/** A source of normally distributed numbers (Box-Muller over xorshift32), seeded with a text. */
function normalNumbers(seed: string): () => number {
  let state = 0x811c9dc5
  for (const character of seed) state = Math.imul(state ^ character.codePointAt(0)!, 0x01000193)
  state ||= 1
  const uniform = () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return ((state >>> 0) + 0.5) / 2 ** 32
  }
  for (let i = 0; i < 8; i++) uniform()
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform())
}
