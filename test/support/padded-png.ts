import { crc32 } from 'node:zlib'
import sharp from 'sharp'

/** A chunk that readers may skip. */
const TYPE = Buffer.from('paDd')
const IEND_BYTES = 12

/** A PNG of few pixels, which take no time to decode, and of that many bytes and some more. */
export async function paddedPng(bytes: number): Promise<Buffer> {
  const plain = sharp({ create: { width: 64, height: 48, channels: 3, background: '#808080' } })
  const picture = await plain.png().toBuffer()
  const body = Buffer.concat([TYPE, Buffer.alloc(bytes)])
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)]
  length.writeUInt32BE(bytes)
  sum.writeUInt32BE(crc32(body))
  const end = picture.length - IEND_BYTES
  return Buffer.concat([picture.subarray(0, end), length, body, sum, picture.subarray(end)])
}
