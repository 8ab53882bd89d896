import type { FileHandle } from 'node:fs/promises'
import type { GgufTensor } from './gguf.ts'

/** Types of numbers that other formats also have. Little-endian. */
export type NumberType = 'F32' | 'F16' | 'BF16'

export const NUMBER_BYTES: Readonly<Record<NumberType, number>> = { F32: 4, F16: 2, BF16: 2 }

/**
 * The values of a tensor whose type `numberType` knows, in that type.
 * @param path of the file, for the error.
 * @throws Error when the file is truncated.
 */
export async function readTensor(file: FileHandle, tensor: GgufTensor, path: string): Promise<Buffer> {
  const { name, type, shape, offset } = tensor
  const layout = LAYOUTS[type]!
  const bytes = (countOf(shape) / layout.blockValues) * layout.blockBytes
  const { size } = await file.stat()
  const truncated = () => new Error(`${path}: the file ends within the tensor '${name}'`)
  if (!(bytes <= size - offset)) throw truncated()
  const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, offset)
  if (bytesRead < bytes) throw truncated()
  return layout.unpack === undefined ? buffer : layout.unpack(buffer)
}

/** The type that holds all values of a tensor exactly: its own, or F32 for Q8_0. Null for other quantisations. */
export function numberType({ type }: GgufTensor): NumberType | null {
  return LAYOUTS[type]?.type ?? null
}

/** Number of elements of a tensor's shape. */
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

/** Blocks of an F16 scale and 32 int8 values: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h */
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
