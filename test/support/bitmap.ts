/** A BMP file of four plain quarters: red and green above, blue and yellow below. */
export interface BitmapSpec {
  readonly bits: 1 | 2 | 4 | 8 | 16 | 24 | 32
  /** Size of the second header; 40 by default. */
  readonly header?: 12 | 40 | 56 | 108 | 124
  /** Red, green, blue and alpha of direct colours. */
  readonly masks?: readonly number[]
  readonly topDown?: boolean
  readonly runs?: boolean
  /** From 0 to 1, where there is a mask for it. */
  readonly alpha?: number
  /** Bytes that are missing at the end. */
  readonly cut?: number
  /** What the header says. */
  readonly width?: number
  readonly height?: number
}

export const QUARTERS = [
  [255, 0, 0],
  [0, 255, 0],
  [0, 0, 255],
  [255, 255, 0],
] as const

/** A width that is no multiple of four, so that rows are padded. */
const BITMAP_SIZE = { width: 98, height: 64 }

export function makeBitmap(spec: BitmapSpec): Buffer {
  const { bits, header: size = 40, masks, topDown = false, runs = false } = spec
  const { width, height } = BITMAP_SIZE
  const rows = Array.from({ length: height }, (_, y) => {
    const shown = topDown ? y : height - 1 - y
    return Array.from({ length: width }, (_, x) => (shown < height / 2 ? 0 : 2) + (x < width / 2 ? 0 : 1))
  })
  const body = runs ? runsOf(rows, bits) : Buffer.concat(rows.map((row) => packed(row, spec)))
  const entry = size === 12 ? 3 : 4
  const colours = bits > 8 ? [] : Array.from({ length: 2 ** bits }, (_, i) => QUARTERS[i % 4]!)
  const palette = Buffer.alloc(colours.length * entry)
  for (const [i, [red, green, blue]] of colours.entries()) palette.set([blue, green, red], i * entry)
  const extra = Buffer.alloc(masks !== undefined && size === 40 ? 12 : 0)
  const head = Buffer.alloc(14 + size)
  head.write('BM', 'latin1')
  head.writeUInt32LE(head.length + extra.length + palette.length + body.length, 2)
  head.writeUInt32LE(head.length + extra.length + palette.length, 10)
  head.writeUInt32LE(size, 14)
  const [wide, tall] = [spec.width ?? width, spec.height ?? (topDown ? -height : height)]
  if (size === 12) {
    head.writeUInt16LE(wide, 18)
    head.writeUInt16LE(tall, 20)
    head.writeUInt16LE(1, 22)
    head.writeUInt16LE(bits, 24)
  } else {
    head.writeInt32LE(wide, 18)
    head.writeInt32LE(tall, 22)
    head.writeUInt16LE(1, 26)
    head.writeUInt16LE(bits, 28)
    head.writeUInt32LE(masks ? 3 : runs ? (bits === 8 ? 1 : 2) : 0, 30)
  }
  const whole = Buffer.concat([head, extra])
  for (const [i, mask] of (masks ?? []).entries()) if (size > 40 || i < 3) whole.writeUInt32LE(mask >>> 0, 54 + 4 * i)
  return Buffer.concat([whole, palette, body.subarray(0, body.length - (spec.cut ?? 0))])
}

function packed(row: readonly number[], { bits, masks, alpha = 1 }: BitmapSpec): Buffer {
  const out = Buffer.alloc(Math.ceil((row.length * bits) / 32) * 4)
  for (const [x, index] of row.entries()) {
    if (bits <= 8) {
      const shift = 8 - bits - ((x * bits) % 8)
      // The two halves of a row differ in the last bit alone, so that one bit is enough for them.
      out[Math.floor((x * bits) / 8)]! |= (index & ((1 << bits) - 1)) << shift
      continue
    }
    const usual = bits === 16 ? [0x7c00, 0x3e0, 0x1f, 0] : [0xff0000, 0xff00, 0xff, 0]
    const value = (masks ?? usual).reduce((sum, mask, channel) => {
      if (mask === 0) return sum
      const shift = 31 - Math.clz32(mask & -mask)
      const share = channel === 3 ? alpha : QUARTERS[index]![channel]! / 255
      return sum + Math.round((mask >>> shift) * share) * 2 ** shift
    }, 0)
    out.writeUIntLE(value, (x * bits) / 8, bits / 8)
  }
  return out
}

/** Runs for the left half, indices as they are for the right one, and in each fourth row a jump over both. */
function runsOf(rows: readonly (readonly number[])[], bits: number): Buffer {
  const byte = (index: number) => (bits === 8 ? index : index * 17)
  const pieces = rows.flatMap((row) => {
    const half = row.length / 2
    const rest = row.slice(half)
    const bytes = bits === 8 ? rest : Array.from({ length: Math.ceil(half / 2) }, () => byte(rest[0]!))
    return [half, byte(row[0]!), 0, half, ...bytes, ...(bytes.length % 2 ? [0] : []), 0, 0]
  })
  return Buffer.from([...pieces, 0, 1])
}
