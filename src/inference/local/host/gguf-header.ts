import { open } from 'node:fs/promises'

/** A value of a GGUF file's metadata. 64-bit integers are read as numbers: none that matters here is that large. */
export type GgufValue = string | number | boolean | GgufArray

const MAGIC = 0x46554747
const VERSIONS = [2, 3]
const STRING = 8
const ARRAY = 9
/** The header of a large vocabulary takes some 10 MB. */
const FIRST_READ_BYTES = 2 ** 20
const MOST_HEADER_BYTES = 2 ** 28

/**
 * Reads the metadata of a GGUF file, and none of its tensors: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 * @throws Error that says why when the file cannot be read or is no GGUF file.
 */
export async function readGgufMetadata(path: string): Promise<ReadonlyMap<string, GgufValue>> {
  await using file = await open(path)
  const { size } = await file.stat()
  for (let bytes = FIRST_READ_BYTES; ; bytes *= 4) {
    const length = Math.min(bytes, size, MOST_HEADER_BYTES)
    const buffer = Buffer.alloc(length)
    const { bytesRead } = await file.read(buffer, 0, length, 0)
    const metadata = parse(new Reader(buffer.subarray(0, bytesRead)))
    if (metadata !== null) return metadata
    if (length < bytes) throw new Error('the file is cut short, or is no GGUF file')
  }
}

/** @returns null when the header goes on behind the buffer. */
function parse(reader: Reader): Map<string, GgufValue> | null {
  try {
    if (reader.uint32() !== MAGIC) throw new Error('the file is no GGUF file')
    const version = reader.uint32()
    if (!VERSIONS.includes(version)) throw new Error(`the file is of GGUF version ${version}, which is not read here`)
    reader.uint64()
    const count = reader.uint64()
    const metadata = new Map<string, GgufValue>()
    for (let i = 0; i < count; i++) metadata.set(reader.string(), reader.value(reader.uint32()))
    return metadata
  } catch (error) {
    if (error instanceof EndOfBuffer) return null
    throw error
  }
}

/** An array in a file's metadata, read element by element when asked for. */
export class GgufArray {
  readonly length: number
  readonly #reader: Reader
  readonly #type: number

  constructor(reader: Reader, type: number, length: number) {
    this.#reader = reader
    this.#type = type
    this.length = length
  }

  at(index: number): GgufValue | undefined {
    if (!Number.isInteger(index) || index < 0 || index >= this.length) return undefined
    const reader = this.#reader.copy()
    reader.skip(this.#type, index)
    return reader.value(this.#type)
  }
}

class EndOfBuffer extends Error {}

interface Scalar {
  readonly bytes: number
  read(buffer: Buffer, at: number): number | boolean
}

/** By their type in the file. */
const SCALARS: Readonly<Record<number, Scalar>> = {
  0: { bytes: 1, read: (buffer, at) => buffer.readUInt8(at) },
  1: { bytes: 1, read: (buffer, at) => buffer.readInt8(at) },
  2: { bytes: 2, read: (buffer, at) => buffer.readUInt16LE(at) },
  3: { bytes: 2, read: (buffer, at) => buffer.readInt16LE(at) },
  4: { bytes: 4, read: (buffer, at) => buffer.readUInt32LE(at) },
  5: { bytes: 4, read: (buffer, at) => buffer.readInt32LE(at) },
  6: { bytes: 4, read: (buffer, at) => buffer.readFloatLE(at) },
  7: { bytes: 1, read: (buffer, at) => buffer.readUInt8(at) !== 0 },
  10: { bytes: 8, read: (buffer, at) => Number(buffer.readBigUInt64LE(at)) },
  11: { bytes: 8, read: (buffer, at) => Number(buffer.readBigInt64LE(at)) },
  12: { bytes: 8, read: (buffer, at) => buffer.readDoubleLE(at) },
}

/** A place in the bytes of a file. */
class Reader {
  readonly #buffer: Buffer
  #at: number

  constructor(buffer: Buffer, at = 0) {
    this.#buffer = buffer
    this.#at = at
  }

  copy(): Reader {
    return new Reader(this.#buffer, this.#at)
  }

  uint32(): number {
    return this.#buffer.readUInt32LE(this.#take(4))
  }

  uint64(): number {
    return Number(this.#buffer.readBigUInt64LE(this.#take(8)))
  }

  string(): string {
    const length = this.uint64()
    const at = this.#take(length)
    return this.#buffer.toString('utf8', at, at + length)
  }

  value(type: number): GgufValue {
    if (type === STRING) return this.string()
    if (type === ARRAY) {
      const element = this.uint32()
      const length = this.uint64()
      const array = new GgufArray(this.copy(), element, length)
      this.skip(element, length)
      return array
    }
    const scalar = scalarOf(type)
    return scalar.read(this.#buffer, this.#take(scalar.bytes))
  }

  skip(type: number, count: number): void {
    if (type === STRING) for (let i = 0; i < count; i++) this.#take(this.uint64())
    else if (type === ARRAY) for (let i = 0; i < count; i++) this.value(type)
    else this.#take(scalarOf(type).bytes * count)
  }

  /** @returns where the bytes begin. */
  #take(bytes: number): number {
    const at = this.#at
    if (at + bytes > this.#buffer.length) throw new EndOfBuffer()
    this.#at += bytes
    return at
  }
}

function scalarOf(type: number): Scalar {
  const scalar = SCALARS[type]
  if (scalar === undefined) throw new Error(`the file holds metadata of the unknown type ${type}`)
  return scalar
}
