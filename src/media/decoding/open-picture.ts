import sharp, { type Metadata, type Sharp, type SharpOptions } from 'sharp'
import type { Size } from '../pixels.ts'
import { avifColours } from './colours/avif-colours.ts'
import { type ToSrgb, toSrgb } from './colours/wide-colours.ts'
import { InvalidMedia, NoThread } from './invalid-media.ts'
import {
  formOf,
  hasUnknown,
  inItsColours,
  LINEAR_LIGHT,
  mayBeMeasured,
  type OpenImage,
  spreadShades,
  withoutUnknown,
} from './measurements.ts'

interface Opening {
  /** Called with the size before anything is decoded. @throws if it is too large. */
  readonly admit: (size: Size) => Promise<void> | void
  /** The most samples that may be measurements; all by default. */
  readonly mostMeasured?: number
}

/**
 * Makes a picture ready to be decoded, even if the library alone would misread its samples.
 * @param page from 1.
 * @throws InvalidMedia when it is damaged.
 */
export async function openPicture(bytes: Uint8Array, page: number, opening: Opening): Promise<OpenImage> {
  const { input, toRgb, isUnusual } = openForm(bytes, page)
  const meta = await input.metadata().catch((error) => {
    refuse(error, isUnusual ? UNSUPPORTED_TIFF : 'The image is damaged or invalid')
  })
  await opening.admit(meta)
  if (toRgb !== null) {
    if (meta.channels !== 3) throw new InvalidMedia(UNSUPPORTED_TIFF)
    return converted(input, toRgb)
  }
  const wide = wideColours(bytes, meta)
  if (wide !== null) return await inSrgb({ input, meta }, wide).catch(refuse)
  const isOpaque = hasUnknown(bytes, page)
  const known = isOpaque ? { ...meta, hasAlpha: false } : meta
  const measured = mayBeMeasured(known) ? await openMeasured(input, known, opening) : null
  if (measured !== null) return measured
  if (isOpaque) return await withoutUnknown({ input, meta }).catch(refuse)
  if (meta.hasAlpha && isPremultiplied(bytes)) return await onWhite({ input, meta }).catch(refuse)
  return { input, meta }
}

/** Replaces the three samples of each pixel by red, green and blue, from 0 to 255. */
type ToRgb = (samples: Uint8ClampedArray) => void

interface OpenForm {
  readonly input: Sharp
  /** Converts samples that the library mistakes for red, green and blue; null if they are that. */
  readonly toRgb: ToRgb | null
  /** Whether a failure of the library is due to the form of the colours. */
  readonly isUnusual: boolean
}

/**
 * The picture as the library opens it.
 * @param page from 1.
 * @throws InvalidMedia for colours that cannot be shown.
 */
export function openForm(bytes: Uint8Array, page: number): OpenForm {
  const options: SharpOptions = { failOn: 'error', limitInputPixels: false, page: page - 1, pages: 1 }
  const { colours, coloursAt, bits, compression, subsampling } = formOf(bytes, page)
  const isLab = colours === LAB || colours === ICC_LAB
  // The library itself converts subsampled chroma.
  const isYcc = colours === YCC && !JPEGS.includes(compression) && subsampling === 1
  if ((isLab || isYcc) && bits === 8) {
    const asRgb = Buffer.from(bytes)
    const isLittle = bytes[0] === 0x49
    if (isLittle) asRgb.writeUInt16LE(RGB, coloursAt)
    else asRgb.writeUInt16BE(RGB, coloursAt)
    const toRgb = isYcc ? yccToRgb : (samples: Uint8ClampedArray) => labToRgb(samples, colours === ICC_LAB)
    return { input: sharp(asRgb, { ...options, ignoreIcc: true }), toRgb, isUnusual: false }
  }
  if (isYcc || colours === ICC_LAB || colours === ITU_LAB) throw new InvalidMedia(UNSUPPORTED_TIFF)
  const isUnusual = colours !== null && !USUAL_COLOURS.includes(colours)
  return { input: sharp(asStill(bytes), options), toRgb: null, isUnusual }
}

const DAMAGED = 'The image is damaged or truncated'
const UNSUPPORTED = 'The image has a depth or a compression that is not supported: convert it to PNG'
/** The library's errors for images that are intact but in an unsupported form. */
const UNSUPPORTED_FORMS = /unsupported jpeg data precision|compression support is not configured|samples out of range/i
export const UNSUPPORTED_TIFF = 'The colours of this TIFF are in a form that is not supported: convert it to RGB'
const RGB = 2
const YCC = 6
const LAB = 8
const ICC_LAB = 9
const ITU_LAB = 10
/** Photometric interpretations: shades, RGB, palettes, masks, inks and YCbCr. */
const USUAL_COLOURS = [0, 1, RGB, 3, 4, 5, YCC]
/** The older form of JPEG and the newer one, which the library converts. */
const JPEGS = [6, 7]

/** The library's message if it cannot start a thread. */
const NO_THREAD = /creating thread/i

/** For errors of the library. */
export function refuse({ message }: Error, damage = DAMAGED): never {
  if (NO_THREAD.test(message)) throw new NoThread(message)
  throw new InvalidMedia(UNSUPPORTED_FORMS.test(message) ? UNSUPPORTED : damage)
}

/** Spreads measurements over 8 bits, because the library would clip them. @returns null for shades. */
async function openMeasured(
  input: Sharp,
  meta: Metadata,
  { mostMeasured = Number.POSITIVE_INFINITY }: Opening,
): Promise<OpenImage | null> {
  const mayBeShades = meta.depth === 'ushort' || meta.space === LINEAR_LIGHT
  if (meta.width * meta.height * meta.channels > mostMeasured) {
    if (mayBeShades) return null
    throw new InvalidMedia(`The image is too large for its ${meta.depth} samples: convert it to 8 or 16 bits`)
  }
  const shades = await spreadShades(input, meta).catch(refuse)
  return shades === null ? null : ofRaw(shades.data, shades)
}

/**
 * Whether the library alone would misread, or fail to read, a picture in a format that the server accepts as an image.
 */
export async function isMisread(bytes: Uint8Array): Promise<boolean> {
  const meta = await openForm(bytes, 1).input.metadata()
  const isDeep = meta.space === 'rgb16' || meta.space === 'grey16'
  return (
    (isDeep && meta.hasProfile) ||
    isPremultiplied(bytes) ||
    wideColours(bytes, meta) !== null ||
    asStill(bytes) !== bytes
  )
}

/** The library opens an animated AVIF only if its brand is that of a still one. */
function asStill(bytes: Uint8Array): Uint8Array {
  if (Buffer.from(bytes.subarray(4, 12)).toString('latin1') !== 'ftypavis') return bytes
  const still = Buffer.from(bytes)
  still.write('avif', 8, 'latin1')
  return still
}

/**
 * Whether the colours of an AVIF are premultiplied by alpha: a reference of its item says so. The library ignores that
 * in an AVIF, but not in a TIFF.
 */
function isPremultiplied({ buffer, byteOffset, byteLength }: Uint8Array): boolean {
  const file = Buffer.from(buffer, byteOffset, byteLength)
  const references = file.toString('latin1', 4, 8) === 'ftyp' ? file.indexOf('iref', 0, 'latin1') : -1
  if (references < 4) return false
  const end = references - 4 + file.readUInt32BE(references - 4)
  return file.subarray(references, end).includes('prem', 0, 'latin1')
}

/** Converts the colours that an AVIF gives as codes. Colours that are premultiplied by alpha are left as they are. */
function wideColours(bytes: Uint8Array, { hasProfile }: Pick<Metadata, 'hasProfile'>): ToSrgb | null {
  const codes = hasProfile || isPremultiplied(bytes) ? null : avifColours(bytes)
  return codes === null ? null : toSrgb(codes)
}

async function inSrgb({ input, meta }: OpenImage, convert: ToSrgb): Promise<OpenImage> {
  const pipeline = input.autoOrient().toColourspace('srgb')
  const { data, info } = await pipeline.raw({ depth: 'uchar' }).toBuffer({ resolveWithObject: true })
  convert(data, info.channels)
  const converted = await ofRaw(data, info)
  // The format says how frames are counted.
  return { ...converted, meta: { ...converted.meta, format: meta.format } }
}

async function onWhite({ input, meta }: OpenImage): Promise<OpenImage> {
  const pipeline = await inItsColours(input.autoOrient(), meta)
  const { data, info } = await pipeline
    .toColourspace('srgb')
    .raw({ depth: 'uchar' })
    .toBuffer({ resolveWithObject: true })
  // In place: a large picture would need as much memory again.
  let to = 0
  for (let from = 0; from < data.length; from += 4) {
    const white = 255 - data[from + 3]!
    for (let channel = 0; channel < 3; channel++) data[to++] = Math.min(255, data[from + channel]! + white)
  }
  const opaque = await ofRaw(data.subarray(0, to), { ...info, channels: 3 })
  // The format says how frames are counted.
  return { ...opaque, meta: { ...opaque.meta, format: meta.format } }
}

async function converted(input: Sharp, toRgb: ToRgb): Promise<OpenImage> {
  const { data, info } = await input.autoOrient().raw().toBuffer({ resolveWithObject: true }).catch(refuse)
  toRgb(new Uint8ClampedArray(data.buffer, data.byteOffset, data.byteLength))
  return ofRaw(data, info)
}

async function ofRaw(
  data: Uint8Array,
  { width, height, channels }: Size & Pick<Metadata, 'channels'>,
): Promise<OpenImage> {
  const input = sharp(data, { limitInputPixels: false, raw: { width, height, channels } })
  return { input, meta: await input.metadata() }
}

/** JPEG's conversion: https://www.itu.int/rec/T-REC-T.871 */
function yccToRgb(samples: Uint8ClampedArray): void {
  for (let at = 0; at < samples.length; at += 3) {
    const y = samples[at]!
    const cb = samples[at + 1]! - 128
    const cr = samples[at + 2]! - 128
    samples[at] = y + 1.402 * cr
    samples[at + 1] = y - 0.344136 * cb - 0.714136 * cr
    samples[at + 2] = y + 1.772 * cb
  }
}

/** D50, the white point of the profile connection space. */
const WHITE = [0.9642, 1, 0.8249] as const
/** From there to linear sRGB, with Bradford adaptation. */
const TO_SRGB = [
  [3.1338561, -1.6168667, -0.4906146],
  [-0.9787684, 1.9161415, 0.033454],
  [0.0719453, -0.2289914, 1.4052427],
] as const

/** @param isIcc whether a and b are stored with an offset of 128; otherwise they are in two's complement. */
function labToRgb(samples: Uint8ClampedArray, isIcc: boolean): void {
  const none = isIcc ? 128 : 0
  const [red, green, blue] = TO_SRGB
  const xs = lightOf(500, isIcc)
  const zs = lightOf(-200, isIcc)
  for (let at = 0; at < samples.length; at += 3) {
    const row = samples[at]! << 8
    const x = WHITE[0] * xs[row | samples[at + 1]!]!
    const y = WHITE[1] * xs[row | none]!
    const z = WHITE[2] * zs[row | samples[at + 2]!]!
    samples[at] = shadeOf(red[0] * x + red[1] * y + red[2] * z)
    samples[at + 1] = shadeOf(green[0] * x + green[1] * y + green[2] * z)
    samples[at + 2] = shadeOf(blue[0] * x + blue[1] * y + blue[2] * z)
  }
}

/** Table of light by lightness and a colour channel, of a byte each. Computing it for each pixel would take seconds. */
function lightOf(share: number, isIcc: boolean): Float32Array {
  const light = new Float32Array(2 ** 16)
  for (let at = 0; at < light.length; at++) {
    const colour = isIcc ? (at & 255) - 128 : (at << 24) >> 24
    light[at] = cubed((((at >> 8) * 100) / 255 + 16) / 116 + colour / share)
  }
  return light
}

function cubed(value: number): number {
  return value > 6 / 29 ? value ** 3 : 3 * (6 / 29) ** 2 * (value - 4 / 29)
}

const STEPS = 4095
/** Shades of sRGB by the light, in steps: a power for each sample would take too long. */
const SHADES = Uint8Array.from({ length: STEPS + 1 }, (_, step) => {
  const light = step / STEPS
  return Math.round(255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055))
})

function shadeOf(light: number): number {
  return light <= 0 ? 0 : light >= 1 ? 255 : SHADES[(light * STEPS + 0.5) | 0]!
}
