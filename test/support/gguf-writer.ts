import { readFile } from 'node:fs/promises'
import { type GgufField, parseGguf } from '../../src/models/read/gguf.ts'
import {
  array,
  field,
  type Tensor,
  type TensorType,
  tensorBytes,
  type WrittenField,
} from '../../src/models/read/gguf-writer.ts'

export * from '../../src/models/read/gguf-writer.ts'

export type TensorTypeName = keyof typeof TensorType

export const int32 = (value: number): GgufField => field(5, value, Buffer.from(Int32Array.of(value).buffer))
export const bool = (value: boolean): GgufField => field(7, value, Buffer.of(value ? 1 : 0))
export const int32s = (values: readonly number[]): WrittenField =>
  array(5, values.length, Buffer.from(Int32Array.from(values).buffer))
export const float32s = (values: readonly number[]): WrittenField =>
  array(6, values.length, Buffer.from(Float32Array.from(values).buffer))
export const bools = (values: readonly boolean[]): WrittenField =>
  array(7, values.length, Buffer.from(values.map((value) => (value ? 1 : 0))))

/** A model's file, to write another one like it. */
export interface GgufFile {
  readonly metadata: ReadonlyMap<string, GgufField>
  readonly tensors: readonly Tensor[]
}

export async function readGguf(path: string): Promise<GgufFile> {
  const file = await readFile(path)
  const { fields, tensors } = parseGguf(file)
  return {
    metadata: fields,
    tensors: tensors.map(({ offset, ...tensor }) => ({
      ...tensor,
      read: () => file.subarray(offset, offset + tensorBytes(tensor)),
    })),
  }
}
