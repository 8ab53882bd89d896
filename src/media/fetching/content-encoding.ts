import { pipeline, Readable, type Transform } from 'node:stream'
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw, createZstdDecompress } from 'node:zlib'

/** Makes the decoder of an encoding for bytes that begin with `head`. */
type MakeDecoder = (head: number | undefined) => Transform

const DECODERS: Readonly<Record<string, MakeDecoder>> = {
  gzip: () => createGunzip(),
  'x-gzip': () => createGunzip(),
  // HTTP requires a zlib header, but some servers leave it out, and browsers accept both.
  deflate: (head = 8) => ((head & 15) === 8 ? createInflate() : createInflateRaw()),
  br: () => createBrotliDecompress(),
  zstd: () => createZstdDecompress(),
}

/** The last one describes how a file was uploaded: stores like S3 may keep the header with it. */
const UNENCODED = ['', 'identity', 'aws-chunked']

/** Bytes that do not match their `Content-Encoding`, or are incomplete. */
export class InvalidEncoding extends Error {
  override readonly name = 'InvalidEncoding'
}

/**
 * Looks up how to decode the body of an HTTP response by its `Content-Encoding`.
 * @returns null for an encoding that is unknown, and for several at once: nested, a few bytes could take minutes to decode.
 */
export function decoderOf(contentEncoding: string): ((pieces: Pieces) => Pieces) | null {
  const names = contentEncoding.split(',').map((name) => name.trim().toLowerCase())
  const name = names.filter((one) => !UNENCODED.includes(one)).join(', ')
  if (name === '') return (pieces) => pieces
  const make = Object.hasOwn(DECODERS, name) ? DECODERS[name]! : null
  return make && ((pieces) => decoded(pieces, name, make))
}

type Pieces = AsyncIterable<Uint8Array>

async function* decoded(pieces: Pieces, name: string, make: MakeDecoder): AsyncGenerator<Uint8Array, void, void> {
  const iterator = pieces[Symbol.asyncIterator]()
  const first = await iterator.next()
  if (first.done) return
  const decoder = make(first.value[0])
  // Ends the decoder with an error of the source, and the source when the decoder ends.
  pipeline(Readable.from(allOf(first.value, iterator)), decoder, () => {})
  try {
    yield* decoder as Pieces
  } catch (cause) {
    if (!/^(Z_|ZSTD_|ERR__)/.test((cause as NodeJS.ErrnoException).code ?? '')) throw cause
    throw new InvalidEncoding(`its content is not valid ${name}`, { cause })
  }
}

async function* allOf(first: Uint8Array, others: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array, void, void> {
  yield first
  yield* { [Symbol.asyncIterator]: () => others }
}
