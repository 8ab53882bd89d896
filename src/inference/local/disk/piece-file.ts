import { createHash, subtle } from 'node:crypto'
import type { Cut, SavedRange } from '../cache/kv-cache.ts'
import type { KeyMedia, PrefixKey } from '../cache/prefix-key.ts'

/** Increase it when the file format or the meaning of its cells changes. */
export const FORMAT = 2

/** The description of a file's cells. */
export interface PieceHead extends SavedRange {
  readonly fingerprint: string
  /** Name of the piece that it continues; null at the start of a sequence. */
  readonly parent: string | null
  /** Symbols of its cells, as in `PrefixKey`. */
  readonly symbols: Int32Array
  readonly media: readonly KeyMedia[]
  /** Time to compute them, in ms. */
  readonly costMs: number
  readonly stateBytes: number
  /** Hash of the state. */
  readonly stateHash: string
}

/**
 * A file consists of the mark, the length of the head, the head's hash, the head and the state. The head consists of the
 * length of a JSON text, the text, and the symbols. Numbers have 32 bits, little-endian.
 */
const MARK = Buffer.from(`LKPREF${String(FORMAT).padStart(2, '0')}`)
const HASH_BYTES = 32
/** Bytes before the head. */
export const PREAMBLE_BYTES = MARK.length + 4 + HASH_BYTES
const MOST_HEAD_BYTES = 64 * 2 ** 20
/** Large states are hashed in blocks of this size, on several threads. */
const HASHED_BYTES = 8 * 2 ** 20

/** The start of a file, before the state. */
export function writeHead({ symbols, ...about }: PieceHead): Buffer {
  const text = Buffer.from(JSON.stringify(about satisfies About))
  const head = Buffer.alloc(4 + text.length + 4 * symbols.length)
  head.writeUInt32LE(text.length)
  text.copy(head, 4)
  for (const [index, symbol] of symbols.entries()) head.writeInt32LE(symbol, 4 + text.length + 4 * index)
  const length = Buffer.alloc(4)
  length.writeUInt32LE(head.length)
  return Buffer.concat([MARK, length, createHash('sha256').update(head).digest(), head])
}

/** Length of the head that follows a preamble; null for anything else. */
export function headBytes(preamble: Uint8Array): number | null {
  const bytes = Buffer.from(preamble.buffer, preamble.byteOffset, preamble.length)
  if (bytes.length < PREAMBLE_BYTES || !bytes.subarray(0, MARK.length).equals(MARK)) return null
  const length = bytes.readUInt32LE(MARK.length)
  return length >= 4 && length <= MOST_HEAD_BYTES ? length : null
}

/** @param start preamble and head. @returns null if it is damaged. */
export function readHead(start: Uint8Array): PieceHead | null {
  const bytes = Buffer.from(start.buffer, start.byteOffset, start.length)
  const length = headBytes(bytes)
  if (length === null || bytes.length !== PREAMBLE_BYTES + length) return null
  const head = bytes.subarray(PREAMBLE_BYTES)
  const hash = bytes.subarray(MARK.length + 4, PREAMBLE_BYTES)
  if (!createHash('sha256').update(head).digest().equals(hash)) return null
  const textBytes = head.readUInt32LE()
  const symbolBytes = length - 4 - textBytes
  if (symbolBytes < 0 || symbolBytes % 4 !== 0) return null
  const about = parse(head.toString('utf8', 4, 4 + textBytes))
  if (about === null) return null
  const symbols = Int32Array.from({ length: symbolBytes / 4 }, (_, i) => head.readInt32LE(4 + textBytes + 4 * i))
  return symbols.length === about.to.cells - about.from.cells ? { ...about, symbols } : null
}

/** The fields of a head in its JSON text. */
type About = Omit<PieceHead, 'symbols'>

/** Checked by hand: a library would take 5 MiB of the engine process. */
function parse(text: string): About | null {
  try {
    const about = JSON.parse(text)
    return isAbout(about) ? about : null
  } catch {
    return null
  }
}

function isAbout(value: Unread<About>): value is About {
  return (
    typeof value.fingerprint === 'string' &&
    (value.parent === null || typeof value.parent === 'string') &&
    isCut(value.from) &&
    isCut(value.to) &&
    (value.onlyCut === null || isCount(value.onlyCut)) &&
    Array.isArray(value.media) &&
    value.media.every(isMedia) &&
    typeof value.costMs === 'number' &&
    value.costMs >= 0 &&
    isCount(value.stateBytes) &&
    typeof value.stateHash === 'string'
  )
}

function isCut(value: unknown): value is Cut {
  const { cells, position } = value as Unread<Cut>
  return isCount(cells) && isCount(position)
}

function isMedia(value: unknown): value is KeyMedia {
  const { at, cells, positions, key } = value as Unread<KeyMedia>
  return isCount(at) && isCount(cells) && isCount(positions) && typeof key === 'string'
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** Fields of unchecked types. */
type Unread<Type> = { readonly [Field in keyof Type]?: unknown }

/** Hashes a state on other threads. */
export async function hashState(state: Uint8Array): Promise<string> {
  const parts: Promise<ArrayBuffer>[] = []
  for (let at = 0; at < state.length; at += HASHED_BYTES) {
    parts.push(subtle.digest('SHA-256', state.subarray(at, at + HASHED_BYTES) as Uint8Array<ArrayBuffer>))
  }
  const hash = createHash('sha256')
  for (const digest of await Promise.all(parts)) hash.update(new Uint8Array(digest))
  return hash.digest('hex')
}

/** The name of a piece: a hash of its content and its parent. The same cells have the same name in every process. */
export function nameOf(key: PrefixKey, { from, to, onlyCut }: SavedRange, parent: string | null): string {
  const symbols = key.symbols.subarray(from.cells, to.cells)
  return createHash('sha256')
    .update(JSON.stringify([parent, from, to, onlyCut, key.mediaWithin(from.cells, to.cells)]))
    .update(new Uint8Array(symbols.buffer, symbols.byteOffset, symbols.byteLength))
    .digest('hex')
    .slice(0, 40)
}
