import type { FileHandle } from 'node:fs/promises'
import { EndOfHead, GgufReader, type GgufValue } from './gguf-value.ts'
import { openPlain } from './plain-file.ts'

/**
 * Reads the header of GGUF files: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 *
 * `@huggingface/gguf` 0.4.6 is not used: without an error, it reads zeros if a file is truncated within its header, and
 * cuts a string that is longer than its buffer. It also makes an object of every token.
 */

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
/**
 * The fewest bytes of a field: the length of its key, its type and its value. For a tensor, all but its name and shape.
 */
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
 * Reads the metadata of a file, without its tensors.
 * @throws Error that says why the file cannot be read.
 */
export async function readGgufMetadata(path: string): Promise<ReadonlyMap<string, GgufValue>> {
  await using file = await openPlain(path)
  const read = (head: Buffer, size: number) => unlessCut(() => readFields(new GgufReader(head, size)))
  return metadataOf((await readHead(await fileBytes(file), read)).fields)
}

/**
 * Reads a header, including the list of tensors, and nothing else of the source.
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
 * Reads more and more of a source until the header is complete.
 * @param parse returns null if the header reaches beyond the bytes.
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
    // A source that ends early was truncated after its size was read.
    if (head.length < length || length === source.size) throw new Error('the file is truncated')
    if (bytes === MAX_HEADER_BYTES) throw new Error(`the file's header is larger than ${MAX_HEADER_BYTES} bytes`)
  }
}

/**
 * Parses a header from the beginning of a file; null if it reaches beyond that.
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
  const reader = new GgufReader(file, size)
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

function readFields(reader: GgufReader): { fields: Map<string, GgufField>; tensorCount: number } {
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
  // The first part of a split model may have no tensors, but has the number of all.
  const all = fields.get('split.tensors.count')?.value
  const tensors = typeof all === 'number' ? Math.max(all, tensorCount) : tensorCount
  if (tensors > 0 && layers > Math.max(tensors, FEW_LAYERS))
    throw new Error(`the file names ${layers} layers and has ${tensors} tensors`)
}

/** @returns the tensor, with its offset relative to the start of the data. */
function readTensor(reader: GgufReader): GgufTensor {
  const name = reader.string()
  const dimensions = reader.uint32()
  if (dimensions > MAX_DIMENSIONS) throw new Error(`the file has a tensor of ${dimensions} dimensions`)
  const shape = Array.from({ length: dimensions }, () => reader.uint64())
  return { name, shape, type: reader.uint32(), offset: reader.uint64() }
}
