import type { GgufField } from '../../src/models/read/gguf.ts'
import { bool, string, uint32, writeGguf } from './gguf-writer.ts'

type HeaderValue = string | number | boolean | readonly string[] | readonly number[]
export type HeaderValues = Readonly<Record<string, HeaderValue>>

/** Writes a GGUF file that has a header and no tensors. Numbers become 32-bit integers. */
export async function writeHeader(path: string, values: HeaderValues): Promise<void> {
  const metadata = new Map(Object.entries(values).map(([key, value]) => [key, fieldOf(value)]))
  await writeGguf(path, { metadata, tensors: [] })
}

const ARRAY = 9
const KIND_BYTES = 4

function fieldOf(value: HeaderValue): GgufField {
  if (typeof value === 'string') return string(value)
  if (typeof value === 'number') return uint32(value)
  if (typeof value === 'boolean') return bool(value)
  const items = value.map((item) => (typeof item === 'string' ? string(item) : uint32(item)))
  const kind = (items[0] ?? uint32(0)).bytes.subarray(0, KIND_BYTES)
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(items.length))
  const contents = items.map(({ bytes }) => bytes.subarray(KIND_BYTES))
  return { value: '', bytes: Buffer.concat([uint32(ARRAY).bytes.subarray(KIND_BYTES), kind, length, ...contents]) }
}
