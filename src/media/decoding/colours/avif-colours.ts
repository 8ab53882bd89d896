import type { ColourCodes } from './wide-colours.ts'

interface Box {
  readonly type: string
  readonly body: Buffer
}

/** The colour codes that an AVIF gives for its picture, which the library ignores; null if it gives none. */
export function avifColours({ buffer, byteOffset, byteLength }: Uint8Array): ColourCodes | null {
  const file = Buffer.from(buffer, byteOffset, byteLength)
  if (file.toString('latin1', 4, 8) !== 'ftyp') return null
  try {
    const meta = boxesIn(boxOf(file, 'meta').subarray(4))
    const properties = find(meta, 'iprp')
    const kept = boxesIn(boxOf(properties, 'ipco'))
    const names = indexesOf(primaryItem(find(meta, 'pitm')), boxOf(properties, 'ipma'))
    const codes = names
      .map((index) => kept[index - 1])
      .find((box) => box?.type === 'colr' && box.body.toString('latin1', 0, 4) === 'nclx')
    return codes ? { primaries: codes.body.readUInt16BE(4), transfer: codes.body.readUInt16BE(6) } : null
  } catch (error) {
    // A truncated file gives none.
    if (error instanceof RangeError) return null
    throw error
  }
}

function boxOf(bytes: Buffer, type: string): Buffer {
  return find(boxesIn(bytes), type)
}

function find(boxes: readonly Box[], type: string): Buffer {
  return boxes.find((box) => box.type === type)?.body ?? Buffer.alloc(0)
}

function boxesIn(bytes: Buffer): Box[] {
  const boxes: Box[] = []
  for (let at = 0; at + 8 <= bytes.length; ) {
    const short = bytes.readUInt32BE(at)
    const head = short === 1 ? 16 : 8
    // A box without a length is the last one.
    const size = short === 1 ? Number(bytes.readBigUInt64BE(at + 8)) : short || bytes.length - at
    if (size < head) break
    boxes.push({ type: bytes.toString('latin1', at + 4, at + 8), body: bytes.subarray(at + head, at + size) })
    at += size
  }
  return boxes
}

function primaryItem(box: Buffer): number {
  return box.readUInt8(0) === 0 ? box.readUInt16BE(4) : box.readUInt32BE(4)
}

/** Indexes of an item's properties, from 1. */
function indexesOf(item: number, box: Buffer): number[] {
  const idBytes = box.readUInt8(0) === 0 ? 2 : 4
  const indexBytes = (box.readUInt8(3) & 1) + 1
  let at = 8
  for (let left = box.readUInt32BE(4); left > 0; left--) {
    const id = box.readUIntBE(at, idBytes)
    const count = box.readUInt8(at + idBytes)
    at += idBytes + 1
    if (id === item) {
      // The first bit says whether the property is essential.
      const mask = 2 ** (8 * indexBytes - 1) - 1
      return Array.from({ length: count }, (_, n) => box.readUIntBE(at + n * indexBytes, indexBytes) & mask)
    }
    at += count * indexBytes
  }
  return []
}
