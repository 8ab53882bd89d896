import type { FileHandle } from 'node:fs/promises'
import { openPlain } from './plain-file.ts'

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
/** GGML_MAX_DIMS. */
const MAX_DIMENSIONS = 4
/** Known models have some hundred fields at most, and some ten thousand tensors. */
const MAX_FIELDS = 2 ** 14
const MAX_TENSORS = 2 ** 16
/** Known models have some hundred layers at most. */
export const MAX_LAYERS = 1024
/** A file may claim up to this many layers without tensors for them: they cost nothing. */
const FEW_LAYERS = 64
/** The largest vocabularies have some 260,000 tokens and twice as many merges. */
const MAX_STRINGS = 2 ** 21
const STRING = 8
const ARRAY = 9
/** Of a field: the length of its key, its type and its value. Of a tensor: all but its name and its sides. */
const LEAST_FIELD_BYTES = 13
const LEAST_TENSOR_BYTES = 24
/** The header of a large vocabulary takes some 10 MB. */
const FIRST_READ_BYTES = 2 ** 20
const MAX_HEADER_BYTES = 2 ** 27

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
  await using file = await openPlain(path)
  const read = (head: Buffer, size: number) => unlessCut(() => readFields(new Reader(head, size)))
  return metadataOf((await readHead(await fileBytes(file), read)).fields)
}

/**
 * Reads a header, including the list of tensors, and no more of the source than that takes.
 * @param from the path of a file, or its bytes.
 * @throws Error that says why the header cannot be read.
 */
export async function readGgufHeader(from: string | ByteSource): Promise<GgufHeader> {
  if (typeof from !== 'string') return readHead(from, parseHead)
  await using file = await openPlain(from)
  return await readHead(await fileBytes(file), parseHead)
}

export function metadataOf(fields: GgufHeader['fields']): ReadonlyMap<string, GgufValue> {
  return new Map([...fields].map(([key, { value }]) => [key, value]))
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

/**
 * Reads more and more of a source until its header is in what was read.
 * @param parse gives null when the header reaches beyond that.
 */
export async function readHead<Header>(
  source: ByteSource,
  parse: (head: Buffer, size: number) => Header | null | Promise<Header | null>,
): Promise<Header> {
  let head: Buffer = Buffer.alloc(0)
  for (let bytes = FIRST_READ_BYTES; ; bytes *= 2) {
    const length = Math.min(bytes, source.size)
    head = Buffer.concat([head, await source.read(head.length, length - head.length)])
    const header = await parse(head, source.size)
    if (header !== null) return header
    // A source that ends early has been cut off since it was asked for its size.
    if (head.length < length || length === source.size) throw new Error('the file is truncated')
    if (bytes === MAX_HEADER_BYTES) throw new Error(`the file's header is larger than ${MAX_HEADER_BYTES} bytes`)
  }
}

/**
 * The header of a file of which this is the beginning; null when it reaches beyond that.
 * @throws Error that says why it cannot be read.
 */
export function parseHead(head: Buffer, size: number): GgufHeader | null {
  return unlessCut(() => parseGguf(head, size))
}

function unlessCut<Header>(parse: () => Header): Header | null {
  try {
    return parse()
  } catch (error) {
    if (error instanceof EndOfHead) return null
    throw error
  }
}

/**
 * Reads a header, including the list of tensors.
 * @param file the whole file, or its beginning up to the data.
 * @param size of the whole file.
 * @throws Error that says why the header cannot be read.
 */
export function parseGguf(file: Buffer, size = file.length): GgufHeader {
  const reader = new Reader(file, size)
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
  const tensorCount = reader.count('tensors', MAX_TENSORS, LEAST_TENSOR_BYTES)
  const count = reader.count('fields in its header', MAX_FIELDS, LEAST_FIELD_BYTES)
  const fields = new Map<string, GgufField>()
  for (let i = 0; i < count; i++) {
    const key = reader.string()
    const from = reader.position
    const value = reader.value(reader.uint32())
    fields.set(key, { value, bytes: reader.since(from) })
  }
  checkLayers(fields, tensorCount)
  return { fields, tensorCount }
}

/** @throws Error for a model that claims more layers than it can have. */
function checkLayers(fields: ReadonlyMap<string, GgufField>, tensorCount: number): void {
  const layers = fields.get(`${fields.get('general.architecture')?.value}.block_count`)?.value
  if (typeof layers !== 'number') return
  if (!(layers >= 0 && layers <= MAX_LAYERS)) {
    throw new Error(`the file names ${layers} layers; at most ${MAX_LAYERS} are supported`)
  }
  // The first part of a model in several may have no tensors, and names the number of all.
  const all = fields.get('split.tensors.count')?.value
  const tensors = typeof all === 'number' ? Math.max(all, tensorCount) : tensorCount
  if (tensors > 0 && layers > Math.max(tensors, FEW_LAYERS))
    throw new Error(`the file names ${layers} layers and has ${tensors} tensors`)
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
  /** Of the elements, by their type in the file. */
  readonly type: number
  /** The elements as they are in the file. */
  readonly bytes: Buffer

  constructor(type: number, length: number, bytes: Buffer) {
    this.type = type
    this.length = length
    this.bytes = bytes
  }

  at(index: number): GgufValue | undefined {
    if (!Number.isInteger(index) || index < 0 || index >= this.length) return undefined
    const reader = new Reader(this.bytes)
    reader.skip(this.type, index)
    return reader.value(this.type)
  }

  /** The first places of some texts, by text. The others are not made into strings, which would take most of the time. */
  find(texts: Iterable<string>): Map<string, number> {
    const found = new Map<string, number>()
    if (this.type !== STRING) return found
    const wanted = new Map<number, { readonly text: string; readonly bytes: Buffer }[]>()
    for (const text of texts) {
      const bytes = Buffer.from(text)
      wanted.set(bytes.length, [...(wanted.get(bytes.length) ?? []), { text, bytes }])
    }
    const reader = new Reader(this.bytes)
    for (let i = 0; i < this.length; i++) {
      const length = reader.uint64()
      const from = reader.take(length)
      for (const { text, bytes } of wanted.get(length) ?? []) {
        const isSame = bytes.compare(this.bytes, from, from + length) === 0
        if (isSame && !found.has(text)) found.set(text, i)
      }
    }
    return found
  }

  *[Symbol.iterator](): Generator<GgufValue, void, void> {
    const reader = new Reader(this.bytes)
    for (let i = 0; i < this.length; i++) yield reader.value(this.type)
  }
}

/** What was read does not reach to the end of the header. */
class EndOfHead extends Error {
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
  /** Of the whole file, of which the buffer may be the beginning. */
  readonly #size: number
  #at = 0

  constructor(buffer: Buffer, size = buffer.length) {
    this.#buffer = buffer
    this.#size = size
  }

  get position(): number {
    return this.#at
  }

  /** The bytes from a position to this one. */
  since(position: number): Buffer {
    return this.#buffer.subarray(position, this.#at)
  }

  uint32(): number {
    return this.#buffer.readUInt32LE(this.take(4))
  }

  /** Without a BigInt, which would take most of the time over a large vocabulary. */
  uint64(): number {
    const at = this.take(8)
    return this.#buffer.readUInt32LE(at) + this.#buffer.readUInt32LE(at + 4) * 2 ** 32
  }

  /**
   * A number of things that follow.
   * @param bytes that each of them takes at least.
   * @throws Error when there are more than `most`, or more than the file has room for.
   */
  count(what: string, most: number, bytes: number): number {
    const count = this.uint64()
    if (count * bytes > this.#size) throw new Error('the file is truncated')
    if (count > most) throw new Error(`the file has ${count} ${what}; at most ${most} are supported`)
    return count
  }

  string(): string {
    const length = this.uint64()
    const at = this.take(length)
    return this.#buffer.toString('utf8', at, at + length)
  }

  value(type: number): GgufValue {
    if (type === STRING) return this.string()
    if (type === ARRAY) {
      const element = this.uint32()
      const length = element === STRING ? this.count('texts in one array', MAX_STRINGS, 8) : this.uint64()
      const from = this.#at
      this.skip(element, length)
      return new GgufArray(element, length, this.since(from))
    }
    const scalar = scalarOf(type)
    return scalar.read(this.#buffer, this.take(scalar.bytes))
  }

  skip(type: number, count: number): void {
    // Nor does ggml read them.
    if (type === ARRAY) throw new Error('the file has nested arrays in its metadata, which are not supported')
    if (type === STRING) for (let i = 0; i < count; i++) this.take(this.uint64())
    else this.take(scalarOf(type).bytes * count)
  }

  /** @returns where the bytes begin. */
  take(bytes: number): number {
    const at = this.#at
    // More of a file that has no more need not be read.
    if (at + bytes > this.#size) throw new Error('the file is truncated')
    if (at + bytes > this.#buffer.length) throw new EndOfHead()
    this.#at += bytes
    return at
  }
}

function scalarOf(type: number): Scalar {
  const scalar = SCALARS[type]
  if (scalar === undefined) throw new Error(`the file has metadata of the unknown type ${type}`)
  return scalar
}
