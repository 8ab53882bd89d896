import { type FileHandle, open } from 'node:fs/promises'
import { type GgufHeader, type GgufTensor, readGgufHeader } from './gguf.ts'
import { partsOf } from './weight-files.ts'

/** Types of numbers that other formats have as well. Little-endian. */
export type NumberType = 'F32' | 'F16' | 'BF16'

export const NUMBER_BYTES: Readonly<Record<NumberType, number>> = { F32: 4, F16: 2, BF16: 2 }

/** The tensors of a model's file, in one part or in several. Their values are read one tensor at a time. */
export class GgufTensors implements AsyncDisposable {
  /** Metadata of the first part. */
  readonly fields: GgufHeader['fields']
  readonly #tensors: ReadonlyMap<string, PlacedTensor>
  readonly #files: readonly FileHandle[]

  private constructor(
    fields: GgufHeader['fields'],
    tensors: ReadonlyMap<string, PlacedTensor>,
    files: readonly FileHandle[],
  ) {
    this.fields = fields
    this.#tensors = tensors
    this.#files = files
  }

  /**
   * @param path of a GGUF file, or of the first of several.
   * @throws Error that names the file, and says why it cannot be read.
   */
  static async open(path: string): Promise<GgufTensors> {
    const files: FileHandle[] = []
    const tensors = new Map<string, PlacedTensor>()
    let fields: GgufHeader['fields'] | undefined
    try {
      for (const part of partsOf(path)) {
        const header = await readGgufHeader(part).catch((error: Error) => {
          throw new Error(`${part}: ${error.message}`, { cause: error })
        })
        const file = await open(part)
        files.push(file)
        fields ??= header.fields
        for (const tensor of header.tensors) tensors.set(tensor.name, { ...tensor, file, path: part })
      }
    } catch (error) {
      for (const file of files) await file.close()
      throw error
    }
    return new GgufTensors(fields!, tensors, files)
  }

  get names(): Iterable<string> {
    return this.#tensors.keys()
  }

  /** Undefined where there is no tensor of that name. */
  find(name: string): GgufTensor | undefined {
    return this.#tensors.get(name)
  }

  /**
   * The values of a tensor whose type `numberType` knows, in that type.
   * @throws Error when the file is truncated.
   */
  async read(name: string): Promise<Buffer> {
    const tensor = this.#tensors.get(name)!
    const layout = LAYOUTS[tensor.type]!
    const bytes = (countOf(tensor.shape) / layout.blockValues) * layout.blockBytes
    const { size } = await tensor.file.stat()
    if (!(bytes <= size - tensor.offset)) throw new Error(`${tensor.path}: the file ends within the tensor '${name}'`)
    const { buffer, bytesRead } = await tensor.file.read(Buffer.alloc(bytes), 0, bytes, tensor.offset)
    if (bytesRead < bytes) throw new Error(`${tensor.path}: the file ends within the tensor '${name}'`)
    return layout.unpack === undefined ? buffer : layout.unpack(buffer)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const file of this.#files) await file.close()
  }
}

interface PlacedTensor extends GgufTensor {
  readonly file: FileHandle
  readonly path: string
}

/** The type that holds all values of a tensor exactly: its own, or F32 for Q8_0. Null for other quantisations. */
export function numberType({ type }: GgufTensor): NumberType | null {
  return LAYOUTS[type]?.type ?? null
}

/** Of a tensor's shape. */
export function countOf(shape: readonly number[]): number {
  return shape.reduce((product, side) => product * side, 1)
}

interface Layout {
  readonly type: NumberType
  readonly blockBytes: number
  readonly blockValues: number
  unpack?(packed: Buffer): Buffer
}

const Q8_0_VALUES = 32
const Q8_0_BYTES = 34
/** By `ggml_type`. */
const LAYOUTS: Readonly<Record<number, Layout>> = {
  0: { type: 'F32', blockBytes: 4, blockValues: 1 },
  1: { type: 'F16', blockBytes: 2, blockValues: 1 },
  8: { type: 'F32', blockBytes: Q8_0_BYTES, blockValues: Q8_0_VALUES, unpack: unpackQ8 },
  30: { type: 'BF16', blockBytes: 2, blockValues: 1 },
}

/** Blocks of a scale in F16 and 32 factors in int8: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h */
function unpackQ8(packed: Buffer): Buffer {
  const blocks = packed.length / Q8_0_BYTES
  const values = new Float32Array(blocks * Q8_0_VALUES)
  const scale = new Float16Array(1)
  const scaleBytes = new Uint8Array(scale.buffer)
  for (let block = 0; block < blocks; block++) {
    const from = block * Q8_0_BYTES
    scaleBytes.set(packed.subarray(from, from + 2))
    for (let i = 0; i < Q8_0_VALUES; i++) values[block * Q8_0_VALUES + i] = scale[0]! * packed.readInt8(from + 2 + i)
  }
  return Buffer.from(values.buffer)
}
