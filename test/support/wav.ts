/** A WAV file with 32-bit floats, whose samples are kept as they are. */
export interface FloatWav {
  /** One for each channel, all of one length. */
  readonly channels: readonly Float32Array[]
  readonly rate: number
  /** The speakers' positions; 0 leaves them unknown. */
  readonly mask: number
}

/** The subtype of floats: its first two bytes are the format 3. */
const FLOAT_SUBTYPE = '0300000000001000800000aa00389b71'

export function makeFloatWav({ channels, rate, mask }: FloatWav): Buffer {
  const count = channels.length
  const length = channels[0]!.length
  const head = Buffer.alloc(68)
  head.write('RIFF', 0, 'latin1')
  head.writeUInt32LE(60 + length * count * 4, 4)
  head.write('WAVEfmt ', 8, 'latin1')
  head.writeUInt32LE(40, 16)
  head.writeUInt16LE(0xfffe, 20)
  head.writeUInt16LE(count, 22)
  head.writeUInt32LE(rate, 24)
  head.writeUInt32LE(rate * count * 4, 28)
  head.writeUInt16LE(count * 4, 32)
  head.writeUInt16LE(32, 34)
  head.writeUInt16LE(22, 36)
  head.writeUInt16LE(32, 38)
  head.writeUInt32LE(mask, 40)
  head.write(FLOAT_SUBTYPE, 44, 'hex')
  head.write('data', 60, 'latin1')
  head.writeUInt32LE(length * count * 4, 64)
  const interleaved = Float32Array.from(
    { length: length * count },
    (_, i) => channels[i % count]![Math.floor(i / count)]!,
  )
  return Buffer.concat([head, Buffer.from(interleaved.buffer)])
}
