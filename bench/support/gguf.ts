import { type FileHandle, open } from 'node:fs/promises'

/** GGUF version 3, as far as benchmarks need it: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md */
export interface Gguf {
  /** Metadata by key, each as the bytes that follow the key in the file: a type and a value. */
  readonly metadata: ReadonlyMap<string, Buffer>
  readonly tensors: readonly Tensor[]
}

export interface Tensor {
  readonly name: string
  /** Innermost first. */
  readonly shape: readonly number[]
  readonly type: TensorType
  readonly data: Buffer
}

export type TensorType = (typeof TensorType)[keyof typeof TensorType]
export const TensorType = { F32: 0, F16: 1, Q8_0: 8 } as const

const MAGIC = 0x46554747
const VERSION = 3
const DEFAULT_ALIGNMENT = 32
const STRING = 8
const ARRAY = 9
/** Bytes of a scalar by its metadata type. */
const SCALAR_BYTES: Record<number, number> = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 }

export const uint32 = (value: number): Buffer => scalar(4, (buffer) => buffer.writeUInt32LE(value))
export const float32 = (value: number): Buffer => scalar(6, (buffer) => buffer.writeFloatLE(value))
export const string = (value: string): Buffer => Buffer.concat([rawUint32(STRING), rawString(value)])

/** The integers of an array of 32-bit integers. */
export function integers(value: Buffer): Int32Array {
  const count = Number(value.readBigUInt64LE(8))
  return Int32Array.from({ length: count }, (_, index) => value.readInt32LE(16 + 4 * index))
}

/** The texts of an array of strings. */
export function strings(value: Buffer): string[] {
  let at = 16
  return Array.from({ length: Number(value.readBigUInt64LE(8)) }, () => {
    const start = at + 8
    at = start + Number(value.readBigUInt64LE(at))
    return value.toString('utf8', start, at)
  })
}

/** @throws Error when the file is not GGUF 3 or holds tensors of other types than `TensorType`. */
export function parseGguf(file: Buffer): Gguf {
  let at = 0
  const take = (bytes: number) => {
    at += bytes
    return file.subarray(at - bytes, at)
  }
  const u32 = () => take(4).readUInt32LE()
  const u64 = () => Number(take(8).readBigUInt64LE())
  const text = () => take(u64()).toString('utf8')
  const skipValue = (type: number) => {
    if (type === STRING) take(u64())
    else if (type === ARRAY) {
      const element = u32()
      const count = u64()
      if (element === STRING || element === ARRAY) for (let i = 0; i < count; i++) skipValue(element)
      else take(count * SCALAR_BYTES[element]!)
    } else take(SCALAR_BYTES[type]!)
  }

  if (u32() !== MAGIC || u32() !== VERSION) throw new Error('The file is not GGUF version 3.')
  const tensorCount = u64()
  const metadataCount = u64()
  const metadata = new Map<string, Buffer>()
  for (let i = 0; i < metadataCount; i++) {
    const key = text()
    const from = at
    skipValue(u32())
    metadata.set(key, file.subarray(from, at))
  }
  const infos = Array.from({ length: tensorCount }, () => {
    const name = text()
    const shape = Array.from({ length: u32() }, u64)
    return { name, shape, type: u32() as TensorType, offset: u64() }
  })
  const alignment = metadata.get('general.alignment')?.readUInt32LE(4) ?? DEFAULT_ALIGNMENT
  const start = align(at, alignment)
  const tensors = infos.map(({ name, shape, type, offset }) => {
    const from = start + offset
    return { name, shape, type, data: file.subarray(from, from + tensorBytes(type, shape)) }
  })
  return { metadata, tensors }
}

/** Writes a file; tensors are asked for one by one, so that they need not be in memory together. */
export async function writeGguf(
  path: string,
  metadata: Gguf['metadata'],
  tensors: Iterable<LazyTensor>,
): Promise<void> {
  const list = [...tensors]
  const parts = [rawUint32(MAGIC), rawUint32(VERSION), rawUint64(list.length), rawUint64(metadata.size)]
  for (const [key, value] of metadata) parts.push(rawString(key), value)
  let offset = 0
  for (const { name, shape, type } of list) {
    parts.push(rawString(name), rawUint32(shape.length), ...shape.map(rawUint64), rawUint32(type), rawUint64(offset))
    offset = align(offset + tensorBytes(type, shape), DEFAULT_ALIGNMENT)
  }
  const file = await open(path, 'w')
  try {
    await writePadded(file, Buffer.concat(parts))
    for (const tensor of list) await writePadded(file, tensor.read())
  } finally {
    await file.close()
  }
}

export interface LazyTensor extends Omit<Tensor, 'data'> {
  read(): Buffer
}

export function tensorBytes(type: TensorType, shape: readonly number[]): number {
  const elements = shape.reduce((product, side) => product * side, 1)
  switch (type) {
    case TensorType.F32:
      return elements * 4
    case TensorType.F16:
      return elements * 2
    case TensorType.Q8_0:
      return (elements / 32) * 34
    default:
      throw new Error(`Tensors of type ${type} are not read here.`)
  }
}

async function writePadded(file: FileHandle, bytes: Buffer): Promise<void> {
  await file.writeFile(bytes)
  await file.writeFile(Buffer.alloc(align(bytes.length, DEFAULT_ALIGNMENT) - bytes.length))
}

const align = (offset: number, alignment: number) => Math.ceil(offset / alignment) * alignment

function scalar(type: number, write: (buffer: Buffer) => void): Buffer {
  const value = Buffer.alloc(4)
  write(value)
  return Buffer.concat([rawUint32(type), value])
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
