import sharp from 'sharp'

const SIDE = 64
/** A reference from one item to one. */
const REFERENCE_BYTES = 14

interface Colour {
  readonly r: number
  readonly g: number
  readonly b: number
  readonly alpha: number
}

/** A plain AVIF that says that its colours are multiplied by its transparency already. @param colour as it is stored. */
export async function premultipliedAvif(colour: Colour): Promise<Buffer> {
  const create = { width: SIDE, height: SIDE, channels: 4, background: colour } as const
  const avif = await sharp({ create }).avif({ lossless: true }).toBuffer()
  const place = (box: string) => avif.indexOf(box, 0, 'latin1') - 4
  const references = place('iref')
  const end = references + avif.readUInt32BE(references)
  // The transparency refers to the colours; the new one goes back.
  const known = avif.indexOf('auxl', references, 'latin1') + 4
  const reference = Buffer.alloc(REFERENCE_BYTES)
  reference.writeUInt32BE(REFERENCE_BYTES, 0)
  reference.write('prem', 4, 'latin1')
  avif.copy(reference, 8, known + 4, known + 6)
  reference.writeUInt16BE(1, 10)
  avif.copy(reference, 12, known, known + 2)
  const out = Buffer.concat([avif.subarray(0, end), reference, avif.subarray(end)])
  const grow = (at: number) => out.writeUInt32BE(avif.readUInt32BE(at) + REFERENCE_BYTES, at)
  for (const box of ['iref', 'meta']) grow(place(box))
  // Where the data of each item are: one piece, whose place has four bytes.
  const locations = place('iloc') + 14
  const item = 2 + 2 + 4 + 2 + 4 + 4
  for (let index = 0; index < avif.readUInt16BE(locations); index++) grow(locations + 2 + index * item + 4)
  return out
}
