/*
 * A ZIP archive (PKWARE's APPNOTE.TXT, section 4) without compression: what is exported is either short or compressed
 * already. Names are UTF-8.
 */

const LOCAL_HEADER = 0x04034b50
const CENTRAL_HEADER = 0x02014b50
const END = 0x06054b50
const VERSION = 20
const UTF8_NAMES = 1 << 11
/** Without ZIP64. */
const MOST_FILES = 0xffff
const MOST_BYTES = 0xffffffff

/**
 * @param files bytes by name; names may have folders, separated by `/`.
 * @param date of all files, in local time; at least 1980.
 * @returns pieces of the archive, in order.
 * @throws RangeError for more than 65,535 files or 4 GB.
 */
export function zip(files: ReadonlyMap<string, Uint8Array>, date = new Date()): Uint8Array<ArrayBuffer>[] {
  if (files.size > MOST_FILES) throw new RangeError(`A ZIP archive has at most ${MOST_FILES} files`)
  const pieces: Uint8Array<ArrayBuffer>[] = []
  const directory: Uint8Array<ArrayBuffer>[] = []
  const time = (date.getHours() << 11) | (date.getMinutes() << 5) | (date.getSeconds() >> 1)
  const day = ((date.getFullYear() - 1980) << 9) | ((date.getMonth() + 1) << 5) | date.getDate()
  let offset = 0
  for (const [name, content] of files) {
    const bytes = new Uint8Array(content)
    const encoded = new TextEncoder().encode(name)
    // What both headers share: version, flags, method "stored", time, date, checksum, sizes, length of the name.
    const shared = record(
      [2, VERSION],
      [2, UTF8_NAMES],
      [2, 0],
      [2, time],
      [2, day],
      [4, crc32(bytes)],
      [4, bytes.length],
      [4, bytes.length],
      [2, encoded.length],
    )
    pieces.push(record([4, LOCAL_HEADER]), shared, record([2, 0]), encoded, bytes)
    directory.push(
      record([4, CENTRAL_HEADER], [2, VERSION]),
      shared,
      // No extra field, no comment, disk 0, no attributes.
      record([2, 0], [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]),
      encoded,
    )
    offset += 4 + shared.length + 2 + encoded.length + bytes.length
  }
  const directoryBytes = directory.reduce((sum, { length }) => sum + length, 0)
  if (offset + directoryBytes > MOST_BYTES) throw new RangeError('A ZIP archive has at most 4 GB')
  const end = record(
    [4, END],
    [2, 0],
    [2, 0],
    [2, files.size],
    [2, files.size],
    [4, directoryBytes],
    [4, offset],
    [2, 0],
  )
  return [...pieces, ...directory, end]
}

/** Little-endian numbers. @param fields the bytes that each takes, with its value. */
function record(...fields: readonly (readonly [2 | 4, number])[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(fields.reduce((sum, [length]) => sum + length, 0))
  const view = new DataView(bytes.buffer)
  let at = 0
  for (const [length, value] of fields) {
    if (length === 2) view.setUint16(at, value, true)
    else view.setUint32(at, value, true)
    at += length
  }
  return bytes
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1
  return value
})

function crc32(bytes: Uint8Array): number {
  let value = 0xffffffff
  for (const byte of bytes) value = CRC_TABLE[(value ^ byte) & 0xff]! ^ (value >>> 8)
  return (value ^ 0xffffffff) >>> 0
}
