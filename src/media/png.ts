import { promisify } from 'node:util'
import { crc32, deflate, deflateSync } from 'node:zlib'
import type { RgbImage } from './pixels.ts'

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
const CHANNELS = 3
/** Rows that are compressed as a sample, to find out whether compressing the picture is worth it. */
const SAMPLED_ROWS = 8
/** A photograph keeps about nine tenths of its size, and takes ten times as long as one that is only stored. */
const WORTHWHILE = 0.5

const deflateAsync = promisify(deflate)

/** Writes a picture as a PNG file, without loss. Drawings and screenshots are compressed; photographs are only stored. */
export async function encodePng(image: RgbImage): Promise<Buffer> {
  const { width, height } = image
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // Eight bits for each of red, green and blue.
  header.set([8, 2], 8)
  const level = isWorthCompressing(image) ? 1 : 0
  const pixels = await deflateAsync(unfilteredRows(image), { level })
  return Buffer.concat([SIGNATURE, ...chunk('IHDR', header), ...chunk('IDAT', pixels), ...chunk('IEND')])
}

function isWorthCompressing({ width, height, data }: RgbImage): boolean {
  const length = width * CHANNELS
  const rows = Math.min(SAMPLED_ROWS, height)
  const sample = Array.from({ length: rows }, (_, index) => {
    const start = Math.floor((index * height) / rows) * length
    return data.subarray(start, start + length)
  })
  return deflateSync(Buffer.concat(sample), { level: 1 }).length < WORTHWHILE * rows * length
}

/** Each row begins with the name of its filter: 0, none. */
function unfilteredRows({ width, height, data }: RgbImage): Buffer {
  const length = width * CHANNELS
  const rows = Buffer.alloc(height * (1 + length))
  for (let row = 0; row < height; row++) {
    rows.set(data.subarray(row * length, (row + 1) * length), row * (1 + length) + 1)
  }
  return rows
}

function chunk(type: string, data: Buffer = Buffer.alloc(0)): Buffer[] {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(data.length)
  const name = Buffer.from(type, 'latin1')
  const check = Buffer.alloc(4)
  check.writeUInt32BE(crc32(data, crc32(name)))
  return [length, name, data, check]
}
