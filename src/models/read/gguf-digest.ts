import { GgufArray, type GgufValue } from './gguf-value.ts'

/** The metadata of a header, as the reading process sends it. */
export type PackedMetadata = ReadonlyMap<string, string | number | boolean | PackedArray>

interface PackedArray {
  readonly type: number
  readonly length: number
  readonly bytes: Uint8Array
}

/** The most elements of an array that is always sent, such as one for each layer. */
const MOST_ELEMENTS = 4096
/** The most bytes of all these arrays and texts. Chat templates have some ten thousand. */
const MOST_BYTES = 2 ** 22
/** The most characters of a text. Longer ones are cut, so the limit of chat templates is below this. */
export const MOST_CHARACTERS = 2 ** 18 + 1
/** Long arrays that are sent too, and the most elements of each. */
const LONG_ARRAYS: ReadonlySet<string> = new Set(['tokenizer.ggml.tokens', 'tokenizer.ggml.token_type'])
const MOST_TOKENS = 2 ** 20
const MOST_TOKEN_BYTES = 2 ** 26

/**
 * Packs the metadata without long fields that are never read, such as merges and scores.
 * @throws Error for more metadata than a model can need.
 */
export function packMetadata(metadata: ReadonlyMap<string, GgufValue>): PackedMetadata {
  const packed = new Map<string, string | number | boolean | PackedArray>()
  let left = MOST_BYTES
  const take = (bytes: number) => {
    left -= bytes
    if (left < 0) throw new Error(`the file has more than ${MOST_BYTES} bytes of text in its header`)
  }
  for (const [key, value] of metadata) {
    take(key.length)
    if (!(value instanceof GgufArray)) {
      const short = typeof value === 'string' ? value.slice(0, MOST_CHARACTERS) : value
      take(String(short).length)
      packed.set(key, short)
      continue
    }
    const { type, length, bytes } = value
    if (LONG_ARRAYS.has(key)) {
      if (length > MOST_TOKENS || bytes.length > MOST_TOKEN_BYTES)
        throw new Error(`the file has ${length} tokens; at most ${MOST_TOKENS} are supported`)
    } else if (length > MOST_ELEMENTS) continue
    else take(bytes.length)
    packed.set(key, { type, length, bytes })
  }
  return packed
}

export function unpackMetadata(packed: PackedMetadata): ReadonlyMap<string, GgufValue> {
  return new Map([...packed].map(([key, value]) => [key, typeof value === 'object' ? unpackArray(value) : value]))
}

function unpackArray({ type, length, bytes: { buffer, byteOffset, byteLength } }: PackedArray): GgufArray {
  return new GgufArray(type, length, Buffer.from(buffer, byteOffset, byteLength))
}
