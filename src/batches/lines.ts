/** A line of a JSON Lines file. Blank lines are left out, but they are numbered. */
export interface FileLine {
  /** From 1. */
  readonly number: number
  /** Its offset in the file and its length, in bytes without the line break. */
  readonly start: number
  readonly length: number
  /** Null for a line that is longer than the limit. */
  readonly bytes: Buffer | null
}

const NEWLINE = 0x0a
const BLANKS: ReadonlySet<number> = new Set([0x20, 0x09, 0x0d])
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf])

/**
 * Splits a stream of any pieces into lines. At most one line is in memory at a time, and at most `limit` bytes of it.
 * The stream must not overwrite its pieces.
 */
export async function* splitLines(
  stream: AsyncIterable<Uint8Array>,
  limit: number,
): AsyncGenerator<FileLine, void, void> {
  let number = 0
  let start = 0
  let length = 0
  let pieces: Buffer[] = []
  const take = (piece: Uint8Array) => {
    if (piece.length === 0) return
    length += piece.length
    if (length <= limit) pieces.push(Buffer.from(piece.buffer, piece.byteOffset, piece.length))
    else pieces = []
  }
  const end = (): FileLine | null => {
    number++
    if (length === 0) return null
    const line =
      length > limit
        ? { number, start, length, bytes: null }
        : trimmed(number, start, pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces))
    start += length
    length = 0
    pieces = []
    return line
  }
  for await (const piece of stream) {
    let from = 0
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, from)) {
      take(piece.subarray(from, at))
      const line = end()
      start++
      from = at + 1
      if (line !== null) yield line
    }
    take(piece.subarray(from))
  }
  const line = length > 0 ? end() : null
  if (line !== null) yield line
}

/** @returns null for a blank line. */
function trimmed(number: number, start: number, bytes: Buffer): FileLine | null {
  // Inside a file too: files may have been concatenated.
  let first = bytes.subarray(0, BYTE_ORDER_MARK.length).equals(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0
  let end = bytes.length
  while (first < end && BLANKS.has(bytes[first]!)) first++
  while (end > first && BLANKS.has(bytes[end - 1]!)) end--
  if (first === end) return null
  return { number, start: start + first, length: end - first, bytes: bytes.subarray(first, end) }
}
