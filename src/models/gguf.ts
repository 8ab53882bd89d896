import { type FileHandle, open } from 'node:fs/promises'

/**
 * Reads the header of GGUF files: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 * `@huggingface/gguf` 0.4.6 does not serve here: it reads zeros where a file is cut off within its header, cuts a string
 * that is longer than what it has read so far, both without an error, and makes an object of every token.
 */

/** A value of the metadata. 64-bit integers become numbers: none that matters here is too large for that. */
export type GgufValue = string | number | boolean | GgufArray

/** An entry of the metadata. */
export interface GgufField {
  readonly value: GgufValue
  /** Type and value as they are in the file. */
  readonly bytes: Buffer
}

export interface GgufTensor {
  readonly name: string
  /** Innermost dimension first. */
  readonly shape: readonly number[]
  /** A `ggml_type`. */
  readonly type: number
  /** Position of its data in the file. */
  readonly offset: number
}

export interface GgufHeader {
  readonly fields: ReadonlyMap<string, GgufField>
  readonly tensors: readonly GgufTensor[]
}

const MAGIC = 0x46554747
const VERSIONS = [2, 3]
const DEFAULT_ALIGNMENT = 32
/** More dimensions than any tensor of ggml has (GGML_MAX_DIMS is 4). */
const MAX_DIMENSIONS = 8
const STRING = 8
const ARRAY = 9
/** The header of a large vocabulary takes some 10 MB. */
const FIRST_READ_BYTES = 2 ** 20
const MAX_HEADER_BYTES = 2 ** 28

/** Bytes that are read piece by piece: of a file, or of an address that answers ranges. */
export interface ByteSource {
  readonly size: number
  /** @returns `length` bytes from `position` on; fewer only where the source ends. */
  read(position: number, length: number): Promise<Buffer>
}

/**
 * Reads the metadata of a file, and nothing of its tensors.
 * @throws Error that says why the file cannot be read.
 */
export async function readGgufMetadata(path: string): Promise<ReadonlyMap<string, GgufValue>> {
  await using file = await open(path)
  const { fields } = await readHead(await fileBytes(file), (head) => readFields(new Reader(head)))
  return new Map([...fields].map(([key, { value }]) => [key, value]))
}

/**
 * Reads a header, including the list of tensors, and no more of the source than that takes.
 * @param from the path of a file, or its bytes.
 * @throws Error that says why the header cannot be read.
 */
export async function readGgufHeader(from: string | ByteSource): Promise<GgufHeader> {
  if (typeof from !== 'string') return readHead(from, parseGguf)
  await using file = await open(from)
  return await readHead(await fileBytes(file), parseGguf)
}

async function fileBytes(file: FileHandle): Promise<ByteSource> {
  const { size } = await file.stat()
  return {
    size,
    async read(position, length) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
      return buffer.subarray(0, bytesRead)
    },
  }
}

/** Reads more and more of a source until its header is in what was read. */
async function readHead<Header>(source: ByteSource, parse: (head: Buffer) => Header): Promise<Header> {
  let head: Buffer = Buffer.alloc(0)
  for (let bytes = FIRST_READ_BYTES; ; bytes *= 2) {
    const length = Math.min(bytes, source.size, MAX_HEADER_BYTES)
    head = Buffer.concat([head, await source.read(head.length, length - head.length)])
    try {
      return parse(head)
    } catch (error) {
      if (!(error instanceof EndOfBuffer)) throw error
      if (length === MAX_HEADER_BYTES) throw new Error(`the file's header is larger than ${MAX_HEADER_BYTES} bytes`)
      if (length < bytes) throw error
    }
  }
}

/**
 * Reads a header, including the list of tensors.
 * @param file the whole file, or its beginning up to the data.
 * @throws Error that says why the header cannot be read.
 */
export function parseGguf(file: Buffer): GgufHeader {
  const reader = new Reader(file)
  const { fields, tensorCount } = readFields(reader)
  const tensors: GgufTensor[] = []
  for (let i = 0; i < tensorCount; i++) tensors.push(readTensor(reader))
  const { value: alignment = DEFAULT_ALIGNMENT } = fields.get('general.alignment') ?? {}
  if (typeof alignment !== 'number' || !Number.isInteger(alignment) || alignment < 1) {
    throw new Error('the file has an invalid general.alignment')
  }
  const start = Math.ceil(reader.position / alignment) * alignment
  return { fields, tensors: tensors.map((tensor) => ({ ...tensor, offset: start + tensor.offset })) }
}

function readFields(reader: Reader): { fields: Map<string, GgufField>; tensorCount: number } {
  if (reader.uint32() !== MAGIC) throw new Error('the file is not a GGUF file')
  const version = reader.uint32()
  if ((version & 0xffff) === 0) throw new Error('the file is big-endian, which is not supported')
  if (!VERSIONS.includes(version)) {
    throw new Error(`the file has GGUF version ${version}; versions ${VERSIONS.join(' and ')} are supported`)
  }
  const tensorCount = reader.uint64()
  const count = reader.uint64()
  const fields = new Map<string, GgufField>()
  for (let i = 0; i < count; i++) {
    const key = reader.string()
    const from = reader.position
    const value = reader.value(reader.uint32())
    fields.set(key, { value, bytes: reader.since(from) })
  }
  return { fields, tensorCount }
}

/** @returns the tensor with its offset from where the data begins. */
function readTensor(reader: Reader): GgufTensor {
  const name = reader.string()
  const dimensions = reader.uint32()
  if (dimensions > MAX_DIMENSIONS) throw new Error(`the file has a tensor of ${dimensions} dimensions`)
  const shape = Array.from({ length: dimensions }, () => reader.uint64())
  return { name, shape, type: reader.uint32(), offset: reader.uint64() }
}

/** An array of the metadata, whose elements are read when they are asked for. */
export class GgufArray implements Iterable<GgufValue> {
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

  *[Symbol.iterator](): Generator<GgufValue, void, void> {
    const reader = this.#reader.copy()
    for (let i = 0; i < this.length; i++) yield reader.value(this.#type)
  }
}

class EndOfBuffer extends Error {
  constructor() {
    super('the file is truncated')
  }
}

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

/** A position in the bytes of a file. */
class Reader {
  readonly #buffer: Buffer
  #at: number

  constructor(buffer: Buffer, at = 0) {
    this.#buffer = buffer
    this.#at = at
  }

  get position(): number {
    return this.#at
  }

  copy(): Reader {
    return new Reader(this.#buffer, this.#at)
  }

  /** The bytes from a position to this one. */
  since(position: number): Buffer {
    return this.#buffer.subarray(position, this.#at)
  }

  uint32(): number {
    return this.#buffer.readUInt32LE(this.#take(4))
  }

  /** Without a BigInt, which would take most of the time over a large vocabulary. */
  uint64(): number {
    const at = this.#take(8)
    return this.#buffer.readUInt32LE(at) + this.#buffer.readUInt32LE(at + 4) * 2 ** 32
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
    // Nor does ggml read them.
    if (type === ARRAY) throw new Error('the file has nested arrays in its metadata, which are not supported')
    if (type === STRING) for (let i = 0; i < count; i++) this.#take(this.uint64())
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
  if (scalar === undefined) throw new Error(`the file has metadata of the unknown type ${type}`)
  return scalar
}
