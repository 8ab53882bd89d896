import sharp, { type Metadata, type Sharp } from 'sharp'

/** Shades of a picture, upright, in rows from the top. */
export interface Shades {
  readonly data: Uint8Array
  readonly width: number
  readonly height: number
  readonly channels: 1 | 2 | 3 | 4
}

/** The highest value of scientific cameras, which store 12 bits in 16. */
const TWELVE_BITS = 4095
export const LINEAR_LIGHT = 'scrgb'
/** The share of colours in floats that may lie beyond 0 to 1, as highlights do. */
const MOST_BEYOND = 0.05
const OTHER_SPACES: readonly (string | undefined)[] = ['cmyk', 'lab', 'labs', undefined]

/** Whether the samples of a TIFF may be measurements. Other formats, and 16 bits with transparency, hold shades. */
export function mayBeMeasured({ format, depth, space, channels, hasAlpha }: Metadata): boolean {
  const isPicture = depth === 'uchar' || (depth === 'ushort' && hasAlpha)
  return format === 'tiff' && !isPicture && channels <= 4 && !OTHER_SPACES.includes(space)
}

/**
 * Spreads the samples of a TIFF over the shades: the smallest becomes black and the largest white.
 * @param image for whose metadata `mayBeMeasured` holds.
 * @returns null if 16 bits are shades already, or floats are colours in linear light, which the library converts.
 */
export async function spreadShades(image: Sharp, { depth, space }: Metadata): Promise<Shades | null> {
  const opaque = image.clone().autoOrient().removeAlpha()
  // The library takes 16 bits to have no sign.
  const { data, info } = await (depth === 'short' ? opaque.linear(1, 2 ** 15) : opaque)
    // The same space: a conversion would clip values beyond 8 bits.
    .toColourspace(space)
    .raw({ depth: 'float' })
    .toBuffer({ resolveWithObject: true })
  const values = new Float32Array(data.buffer, data.byteOffset, data.byteLength / Float32Array.BYTES_PER_ELEMENT)
  const range = rangeOf(values)
  if (depth === 'ushort' && range.most > TWELVE_BITS) return null
  if (space === LINEAR_LIGHT && shareBeyond(values) <= MOST_BEYOND) return null
  const { width, height, channels } = info
  return { data: spread(values, depth === 'ushort' ? { ...range, least: 0 } : range), width, height, channels }
}

interface Range {
  readonly least: number
  readonly most: number
}

/** Range of the numbers among the values. */
function rangeOf(values: Float32Array): Range {
  let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const value of values) {
    if (!Number.isFinite(value)) continue
    if (value < least) least = value
    if (value > most) most = value
  }
  return { least, most }
}

/** The share of values below 0 or above 1. */
function shareBeyond(values: Float32Array): number {
  let beyond = 0
  for (const value of values) if (value < 0 || value > 1) beyond++
  return beyond / values.length
}

function spread(values: Float32Array, { least, most }: Range): Uint8Array {
  const scale = most > least ? 255 / (most - least) : 0
  // `Uint8Array.from` would list the values first, which takes ten times their memory.
  const shades = new Uint8Array(values.length)
  for (let at = 0; at < values.length; at++) {
    const value = values[at]!
    if (Number.isFinite(value)) shades[at] = Math.round((value - least) * scale)
  }
  return shades
}

/** An open image, and the library's metadata of it. */
export interface OpenImage {
  readonly input: Sharp
  readonly meta: Metadata
}

/**
 * Whether the channel that the library treats as alpha is something else, such as near infrared or a saved selection in
 * a TIFF.
 * @param page of the image, from 1.
 */
export function hasUnknown(bytes: Uint8Array, page: number): boolean {
  return formOf(bytes, page).extra === 0
}

/** The image in 8 bits without its last channel. Before scaling, the library would multiply the colours by it. */
export async function withoutUnknown({ input, meta }: OpenImage): Promise<OpenImage> {
  const pipeline = await inItsColours(input.autoOrient().removeAlpha(), meta)
  const { data, info } = await pipeline.raw({ depth: 'uchar' }).toBuffer({ resolveWithObject: true })
  const { width, height, channels } = info
  const opaque = sharp(data, { limitInputPixels: false, raw: { width, height, channels } })
  return { input: opaque, meta: await opaque.metadata() }
}

/**
 * Applies the profile of a 16-bit image. The library would convert colours to Display P3 and then treat them as sRGB,
 * and leaves shades as they are.
 */
export async function inItsColours(pipeline: Sharp, { space, icc }: Metadata): Promise<Sharp> {
  // The library ignores profiles of another colour space.
  const kind = icc?.toString('latin1', 16, 20)
  if (!(space === 'rgb16' && kind === 'RGB ') && !(space === 'grey16' && kind === 'GRAY')) return pipeline
  const deep = pipeline.toColourspace(space).withIccProfile('srgb').raw({ depth: 'ushort' })
  const { data, info } = await deep.toBuffer({ resolveWithObject: true })
  const { width, height, channels } = info
  const samples = new Uint16Array(data.buffer, data.byteOffset, data.byteLength / Uint16Array.BYTES_PER_ELEMENT)
  return sharp(samples, { limitInputPixels: false, raw: { width, height, channels } })
}

const BITS = 258
const COMPRESSION = 259
const COLOURS = 262
const EXTRA_SAMPLES = 338
const SUBSAMPLING = 530

interface TiffForm {
  /** Photometric interpretation; null if it cannot be read. */
  readonly colours: number | null
  /** Offset of its value in the file. */
  readonly coloursAt: number
  readonly bits: number
  readonly compression: number
  /** How many pixels of a row share their chroma samples. */
  readonly subsampling: number
  /** What the first sample beyond the colours is; 0 for unspecified. Null if there is none. */
  readonly extra: number | null
}

/** Reads how a TIFF's page stores its samples, from its directory. Other formats have none. */
export function formOf(bytes: Uint8Array, page: number): TiffForm {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const isLittle = bytes[0] === 0x49
  const short = (at: number) => (at + 2 <= view.byteLength ? view.getUint16(at, isLittle) : 0)
  const long = (at: number) => (at + 4 <= view.byteLength ? view.getUint32(at, isLittle) : 0)
  const isBig = short(2) === 43
  // The lower half of BigTIFF's 64 bits: no file is longer.
  const place = (at: number) => (isBig && !isLittle ? long(at + 4) : long(at))
  const [first, head, size, value] = isBig ? [8, 8, 20, 12] : [4, 2, 12, 8]
  const endOf = (directory: number) => directory + head + size * (isBig ? place(directory) : short(directory))
  /** Where the values of the fields are. */
  const fields = new Map<number, number>()
  if ((short(0) === 0x4949 || short(0) === 0x4d4d) && (isBig || short(2) === 42)) {
    let at = place(first)
    for (let passed = 1; passed < page; passed++) at = place(endOf(at))
    for (let entry = at + head, last = Math.min(endOf(at), bytes.length); entry < last; entry += size) {
      // Values that do not fit in the entry are elsewhere.
      const isFar = place(entry + 4) > (isBig ? 4 : 2)
      fields.set(short(entry), isFar ? place(entry + value) : entry + value)
    }
  }
  const read = (tag: number) => (fields.has(tag) ? short(fields.get(tag)!) : null)
  return {
    colours: read(COLOURS),
    coloursAt: fields.get(COLOURS) ?? 0,
    bits: read(BITS) ?? 1,
    compression: read(COMPRESSION) ?? 1,
    extra: read(EXTRA_SAMPLES),
    subsampling: read(SUBSAMPLING) ?? 2,
  }
}
