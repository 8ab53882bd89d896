import { crc32, deflateSync } from 'node:zlib'

/** Colours of sRGB, in the space that connects profiles. */
const PRIMARIES = {
  rXYZ: [0.43607, 0.22249, 0.01392],
  gXYZ: [0.38515, 0.71687, 0.09708],
  bXYZ: [0.14307, 0.06061, 0.7141],
}
const WHITE = [0.9642, 1, 0.8249]

/** A colour profile whose values are in proportion to light. */
function linearProfile(space: 'RGB ' | 'GRAY'): Buffer {
  const curve = Buffer.from('6375727600000000000000010100', 'hex')
  const text = Buffer.from('text\0\0\0\0x\0', 'latin1')
  const description = Buffer.concat([Buffer.from('desc\0\0\0\0\0\0\0\x02x\0', 'latin1'), Buffer.alloc(78)])
  const colours = Object.entries(PRIMARIES).map(([name, values]) => [name, xyz(values)] as const)
  const tags = [
    ['desc', description],
    ['cprt', text],
    ['wtpt', xyz(WHITE)],
    ...(space === 'GRAY' ? [] : colours),
    ...(space === 'GRAY' ? ['kTRC'] : ['rTRC', 'gTRC', 'bTRC']).map((name) => [name, curve] as const),
  ] as const
  const head = Buffer.alloc(132 + 12 * tags.length)
  head.writeUInt32BE(0x02400000, 8)
  head.write(`mntr${space}XYZ `, 12, 'latin1')
  head.write('acsp', 36, 'latin1')
  xyz(WHITE).copy(head, 68, 8)
  head.writeUInt32BE(tags.length, 128)
  const parts = [head]
  let at = head.length
  for (const [index, [name, value]] of tags.entries()) {
    const entry = 132 + 12 * index
    head.write(name, entry, 'latin1')
    head.writeUInt32BE(at, entry + 4)
    head.writeUInt32BE(value.length, entry + 8)
    const padded = Buffer.concat([value, Buffer.alloc(-value.length & 3)])
    parts.push(padded)
    at += padded.length
  }
  head.writeUInt32BE(at, 0)
  return Buffer.concat(parts)
}

function xyz(values: readonly number[]): Buffer {
  const tag = Buffer.alloc(20)
  tag.write('XYZ ', 'latin1')
  for (const [index, value] of values.entries()) tag.writeInt32BE(Math.round(value * 65_536), 8 + 4 * index)
  return tag
}

/** A PNG whose samples are in proportion to light by its profile, which replaces none. */
export function inLinearLight(png: Uint8Array, space: 'RGB ' | 'GRAY'): Buffer {
  const body = Buffer.concat([Buffer.from('iCCPx\0\0', 'latin1'), deflateSync(linearProfile(space))])
  const ends = Buffer.alloc(8)
  ends.writeUInt32BE(body.length - 4, 0)
  ends.writeUInt32BE(crc32(body), 4)
  const afterHeader = 33
  const parts = [png.subarray(0, afterHeader), ends.subarray(0, 4), body, ends.subarray(4), png.subarray(afterHeader)]
  return Buffer.concat(parts)
}
