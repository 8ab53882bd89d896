import { type FileHandle, open } from 'node:fs/promises'
import type { GgufField, GgufTensor } from './gguf.ts'
import type { GgufValue } from './gguf-value.ts'

/** A value of the metadata, encoded. */
export type WrittenField = Pick<GgufField, 'bytes'>

export interface WrittenFile {
  readonly metadata: ReadonlyMap<string, WrittenField>
  readonly tensors: readonly Tensor[]
}

export interface Tensor extends Omit<GgufTensor, 'offset'> {
  read(): Buffer
}

/** The types of tensors that can be written. */
export const TensorType = { F32: 0, F16: 1, Q4_0: 2, Q5_0: 6, Q8_0: 8, Q4_K: 12, Q5_K: 13, Q6_K: 14, BF16: 30 } as const

interface Block {
  readonly values: number
  readonly bytes: number
}

/** By type: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h */
const BLOCKS: Readonly<Record<number, Block>> = {
  [TensorType.F32]: { values: 1, bytes: 4 },
  [TensorType.F16]: { values: 1, bytes: 2 },
  [TensorType.BF16]: { values: 1, bytes: 2 },
  [TensorType.Q4_0]: { values: 32, bytes: 18 },
  [TensorType.Q5_0]: { values: 32, bytes: 22 },
  [TensorType.Q8_0]: { values: 32, bytes: 34 },
  [TensorType.Q4_K]: { values: 256, bytes: 144 },
  [TensorType.Q5_K]: { values: 256, bytes: 176 },
  [TensorType.Q6_K]: { values: 256, bytes: 210 },
}

const MAGIC = 0x46554747
const VERSION = 3
const ALIGNMENT = 32

export const uint32 = (value: number): GgufField => field(4, value, rawUint32(value))
export const float32 = (value: number): GgufField => field(6, value, Buffer.from(Float32Array.of(value).buffer))
export const string = (value: string): GgufField => field(8, value, rawString(value))
export const strings = (values: readonly string[]): WrittenField =>
  array(8, values.length, Buffer.concat(values.map(rawString)))

/** Tensors are read one by one, so that they need not be in memory together. */
export async function writeGguf(path: string, { metadata, tensors }: WrittenFile): Promise<void> {
  const parts = [rawUint32(MAGIC), rawUint32(VERSION), rawUint64(tensors.length), rawUint64(metadata.size)]
  for (const [key, { bytes }] of metadata) parts.push(rawString(key), bytes)
  let offset = 0
  for (const tensor of tensors) {
    const { name, shape, type } = tensor
    parts.push(rawString(name), rawUint32(shape.length), ...shape.map(rawUint64), rawUint32(type), rawUint64(offset))
    offset = align(offset + tensorBytes(tensor))
  }
  await using file = await open(path, 'w')
  await writePadded(file, Buffer.concat(parts))
  for (const tensor of tensors) await writePadded(file, tensor.read())
}

export function tensorBytes({ type, shape }: Pick<GgufTensor, 'type' | 'shape'>): number {
  const { values, bytes } = blockOf(type)
  const elements = shape.reduce((product, side) => product * side, 1)
  return (elements / values) * bytes
}

/** Values and bytes of a block of this type. */
export function blockOf(type: number): Block {
  const block = BLOCKS[type]
  if (block === undefined) throw new Error(`Tensors of type ${type} are not supported.`)
  return block
}

async function writePadded(file: FileHandle, bytes: Buffer): Promise<void> {
  await file.writeFile(bytes)
  await file.writeFile(Buffer.alloc(align(bytes.length) - bytes.length))
}

const align = (offset: number) => Math.ceil(offset / ALIGNMENT) * ALIGNMENT

/** @param type of the value in the file. */
export function field(type: number, value: GgufValue, bytes: Buffer): GgufField {
  return { value, bytes: Buffer.concat([rawUint32(type), bytes]) }
}

/** @param type of the items in the file. */
export function array(type: number, length: number, items: Buffer): WrittenField {
  return { bytes: Buffer.concat([rawUint32(9), rawUint32(type), rawUint64(length), items]) }
}

function rawUint32(value: number): Buffer {
  const buffer = Buffer.alloc(4)
  buffer.writeUInt32LE(value)
  return buffer
}

function rawUint64(value: number): Buffer {
  const buffer = Buffer.alloc(8)
  buffer.writeBigUInt64LE(BigInt(value))
  return buffer
}

function rawString(value: string): Buffer {
  const bytes = Buffer.from(value)
  return Buffer.concat([rawUint64(bytes.length), bytes])
}
