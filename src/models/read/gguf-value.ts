/** A value of the metadata. 64-bit integers become numbers: no relevant one exceeds 2^53. */
export type GgufValue = string | number | boolean | GgufArray

/** The largest vocabularies have some 260,000 tokens and twice as many merges. */
const MAX_STRINGS = 2 ** 21
const STRING = 8
const ARRAY = 9

/** An array of the metadata, whose elements are read on demand. */
export class GgufArray implements Iterable<GgufValue> {
  readonly length: number
  /** Type of the elements, as the file numbers it. */
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
    const reader = new GgufReader(this.bytes)
    reader.skip(this.type, index)
    return reader.value(this.type)
  }

  /** The first index of each text. Other elements are not decoded, which would take most of the time. */
  find(texts: Iterable<string>): Map<string, number> {
    const found = new Map<string, number>()
    if (this.type !== STRING) return found
    const encoded = Array.from(texts, (text) => ({ text, bytes: Buffer.from(text) }))
    const wanted = Map.groupBy(encoded, ({ bytes }) => bytes.length)
    const reader = new GgufReader(this.bytes)
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
    const reader = new GgufReader(this.bytes)
    for (let i = 0; i < this.length; i++) yield reader.value(this.type)
  }
}

/** The buffer ends before the header does. */
export class EndOfHead extends Error {
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
export class GgufReader {
  readonly #buffer: Buffer
  /** Size of the whole file, of which the buffer may be the beginning. */
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

  /** Without a BigInt, which would take most of the time for a large vocabulary. */
  uint64(): number {
    const at = this.take(8)
    return this.#buffer.readUInt32LE(at) + this.#buffer.readUInt32LE(at + 4) * 2 ** 32
  }

  /**
   * Reads the number of elements that follow.
   * @param bytes the least size of each element.
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
    // ggml does not read them either.
    if (type === ARRAY) throw new Error('the file has nested arrays in its metadata, which are not supported')
    if (type === STRING) for (let i = 0; i < count; i++) this.take(this.uint64())
    else this.take(scalarOf(type).bytes * count)
  }

  /** @returns where the bytes begin. */
  take(bytes: number): number {
    const at = this.#at
    // Reading more of the file would not help.
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
