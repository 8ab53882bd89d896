/** A TIFF without compression, in little endian. */
export interface TiffSpec {
  readonly width: number
  readonly height: number
  /** Samples of each pixel: 1 for shades, 3 for colours; one more with transparency. */
  readonly channels: 1 | 2 | 3 | 4
  /** Pixels of each page, in rows from the top. */
  readonly pages: readonly (Uint8Array | Uint16Array | Int16Array | Int32Array | Float32Array | Float64Array)[]
  /** Value of the field PhotometricInterpretation; shades or RGB by default. */
  readonly colours?: number
  /** Value of the field ExtraSamples; transparency by default. */
  readonly extra?: number
  /** How many pixels share the numbers of their colour, each way; left out by default. */
  readonly subsampling?: number
}

type Field = [tag: number, type: number, values: number[]]

const SHORT = 3
const LONG = 4
const TRANSPARENCY = 2
/** Values of the field SampleFormat. */
const UNSIGNED = 1
const SIGNED = 2
const FLOAT = 3

export function makeTiff(spec: TiffSpec): Buffer {
  const { width, height, channels, pages, colours = channels <= 2 ? 1 : 2, extra = TRANSPARENCY, subsampling } = spec
  const parts: Buffer[] = [Buffer.from('49492a0008000000', 'hex')]
  let at = 8
  for (const [index, samples] of pages.entries()) {
    const data = Buffer.from(samples.buffer, samples.byteOffset, samples.byteLength)
    const format = formatOf(samples)
    const fields: Field[] = [
      [256, LONG, [width]],
      [257, LONG, [height]],
      [258, SHORT, Array(channels).fill(samples.BYTES_PER_ELEMENT * 8)],
      [259, SHORT, [1]],
      [262, SHORT, [colours]],
      // Where the data begin; filled in below.
      [273, LONG, [0]],
      [277, SHORT, [channels]],
      [278, LONG, [height]],
      [279, LONG, [data.length]],
      ...(channels % 2 === 0 ? [[338, SHORT, [extra]] satisfies Field] : []),
      [339, SHORT, Array(channels).fill(format)],
      ...(subsampling === undefined ? [] : [[530, SHORT, [subsampling, subsampling]] satisfies Field]),
    ]
    const directory = Buffer.alloc(2 + fields.length * 12 + 4)
    const long: Buffer[] = []
    let end = at + directory.length
    directory.writeUInt16LE(fields.length, 0)
    for (const [i, [tag, type, values]] of fields.entries()) {
      const entry = 2 + i * 12
      directory.writeUInt16LE(tag, entry)
      directory.writeUInt16LE(type, entry + 2)
      directory.writeUInt32LE(values.length, entry + 4)
      if (type === LONG) directory.writeUInt32LE(values[0]!, entry + 8)
      else if (values.length <= 2)
        for (const [j, value] of values.entries()) directory.writeUInt16LE(value, entry + 8 + 2 * j)
      else {
        directory.writeUInt32LE(end, entry + 8)
        long.push(Buffer.from(Uint16Array.from([...values, 0]).buffer))
        end += long.at(-1)!.length
      }
    }
    directory.writeUInt32LE(end, 2 + fields.findIndex(([tag]) => tag === 273) * 12 + 8)
    directory.writeUInt32LE(index === pages.length - 1 ? 0 : end + data.length, directory.length - 4)
    parts.push(directory, ...long, data)
    at = end + data.length
  }
  return Buffer.concat(parts)
}

function formatOf(samples: TiffSpec['pages'][number]): number {
  if (samples instanceof Float32Array || samples instanceof Float64Array) return FLOAT
  return samples instanceof Int16Array || samples instanceof Int32Array ? SIGNED : UNSIGNED
}
