import type { RgbImage } from '../pixels.ts'
import { InvalidMedia } from './invalid-media.ts'

const FILE_HEADER = 14
/** The header of OS/2, with sizes of 16 bits and colours of three bytes. */
const CORE_HEADER = 12
const RGB = 0
const RLE8 = 1
const RLE4 = 2
const BITFIELDS = 3
const ALPHA_BITFIELDS = 6
const INDEXED = [1, 2, 4, 8]
/** Masks for red, green, blue and alpha in files that give none. */
const USUAL_MASKS: Readonly<Record<number, readonly number[]>> = {
  16: [0x7c00, 0x3e0, 0x1f, 0],
  24: [0xff0000, 0xff00, 0xff, 0],
  32: [0xff0000, 0xff00, 0xff, 0],
}

/** The header of a BMP file, parsed. */
export interface BitmapHeader {
  readonly width: number
  readonly height: number
  readonly topDown: boolean
  readonly bits: number
  readonly compression: number
  /** Masks of direct colours: red, green, blue, alpha. */
  readonly masks: readonly number[]
  /** Indexed colours, three bytes each: red, green, blue. */
  readonly palette: Uint8Array
  /** Where the pixels begin. */
  readonly start: number
}

export function isBitmap(bytes: Uint8Array): boolean {
  return bytes[0] === 0x42 && bytes[1] === 0x4d
}

/** @throws InvalidMedia when the bytes are no BMP file, or use a variant that is not supported. */
export function readBitmapHeader(bytes: Uint8Array): BitmapHeader {
  const view = viewOf(bytes)
  if (bytes.length < FILE_HEADER + CORE_HEADER) throw damaged()
  const size = view.getUint32(14, true)
  const isCore = size === CORE_HEADER
  if (!isCore && (size < 16 || bytes.length < FILE_HEADER + 40)) throw damaged()
  const tall = isCore ? view.getUint16(20, true) : view.getInt32(22, true)
  const width = isCore ? view.getUint16(18, true) : view.getInt32(18, true)
  const bits = view.getUint16(isCore ? 24 : 28, true)
  const compression = isCore || size < 20 ? RGB : view.getUint32(30, true)
  if (width <= 0 || tall === 0) throw damaged()
  if (!isForm(bits, compression)) {
    throw new InvalidMedia(
      `BMP files of ${bits} bits with compression ${compression} are not supported: convert it to PNG`,
    )
  }
  // The masks follow the oldest of the longer headers.
  const named = compression === BITFIELDS || compression === ALPHA_BITFIELDS
  const count = compression === ALPHA_BITFIELDS || size >= 56 ? 4 : 3
  if (named && bytes.length < 54 + 4 * count) throw damaged()
  const masks = named
    ? [0, 1, 2, 3].map((index) => (index < count ? view.getUint32(54 + 4 * index, true) : 0))
    : (USUAL_MASKS[bits] ?? [])
  const start = view.getUint32(10, true)
  const colours = FILE_HEADER + size + (named && size === 40 ? 4 * count : 0)
  const used = isCore || size < 36 ? 0 : view.getUint32(46, true)
  const palette = INDEXED.includes(bits)
    ? paletteOf(bytes, { colours, end: start, entry: isCore ? 3 : 4, bits, used })
    : NONE
  return { width, height: Math.abs(tall), topDown: tall < 0, bits, compression, masks, palette, start }
}

/** The pixels, upright. Transparency becomes white. @throws InvalidMedia when bytes are missing. */
export function decodeBitmap(bytes: Uint8Array, header: BitmapHeader): RgbImage {
  const { width, height, bits, compression } = header
  if (compression === RLE8 || compression === RLE4) return fromIndices(runs(bytes, header), width, header)
  const stride = Math.ceil((width * bits) / 32) * 4
  if (header.start + stride * height > bytes.length) throw damaged()
  const pixels = bytes.subarray(header.start, header.start + stride * height)
  return INDEXED.includes(bits) ? fromIndices(pixels, stride, header) : fromMasks(pixels, stride, header)
}

const NONE = new Uint8Array()

function isForm(bits: number, compression: number): boolean {
  switch (compression) {
    case RGB:
      return INDEXED.includes(bits) || bits in USUAL_MASKS
    case RLE8:
      return bits === 8
    case RLE4:
      return bits === 4
    case BITFIELDS:
    case ALPHA_BITFIELDS:
      return bits === 16 || bits === 32
    default:
      return false
  }
}

interface PalettePlace {
  readonly colours: number
  readonly end: number
  /** Bytes of a colour. */
  readonly entry: number
  readonly bits: number
  /** Number of colours that the file uses, by its header; 0 for all. */
  readonly used: number
}

/** Colours that are missing are black. */
function paletteOf(bytes: Uint8Array, { colours, end, entry, bits, used }: PalettePlace): Uint8Array {
  const palette = new Uint8Array(256 * 3)
  const room = Math.floor((Math.min(end, bytes.length) - colours) / entry)
  const count = Math.min(used === 0 ? 2 ** bits : used, 2 ** bits, room)
  for (let index = 0; index < count; index++) {
    const at = colours + index * entry
    palette.set([bytes[at + 2]!, bytes[at + 1]!, bytes[at]!], index * 3)
  }
  return palette
}

/** @param rows of indices, as the file has them; those of runs have a byte for each pixel. */
function fromIndices(rows: Uint8Array, stride: number, header: BitmapHeader): RgbImage {
  const { width, height, topDown, palette, compression } = header
  const bits = compression === RGB ? header.bits : 8
  const data = new Uint8Array(width * height * 3)
  const [perByte, mask] = [8 / bits, (1 << bits) - 1]
  for (let y = 0, o = 0; y < height; y++) {
    const row = (topDown ? y : height - 1 - y) * stride
    for (let x = 0; x < width; x++) {
      const byte = rows[row + Math.floor(x / perByte)]!
      const colour = ((byte >> (8 - bits - (x % perByte) * bits)) & mask) * 3
      data[o++] = palette[colour]!
      data[o++] = palette[colour + 1]!
      data[o++] = palette[colour + 2]!
    }
  }
  return { width, height, data }
}

/** Expands runs to an index for each pixel, in the order of the file's rows. Pixels that are skipped have the first colour. */
function runs(bytes: Uint8Array, { width, height, bits, start }: BitmapHeader): Uint8Array {
  const indices = new Uint8Array(width * height)
  let [x, y] = [0, 0]
  const put = (index: number) => {
    if (x < width && y < height) indices[y * width + x] = index
    x++
  }
  // Not all files have a mark at the end.
  for (let at = start; y < height; ) {
    if (at + 2 > bytes.length) throw damaged()
    const [count, value] = [bytes[at]!, bytes[at + 1]!]
    at += 2
    if (count > 0) {
      for (let i = 0; i < count; i++) put(bits === 8 ? value : nibble(value, i))
    } else if (value === 0) {
      ;[x, y] = [0, y + 1]
    } else if (value === 1) {
      break
    } else if (value === 2) {
      if (at + 2 > bytes.length) throw damaged()
      ;[x, y] = [x + bytes[at]!, y + bytes[at + 1]!]
      at += 2
    } else {
      const length = Math.ceil((value * bits) / 8)
      if (at + length > bytes.length) throw damaged()
      for (let i = 0; i < value; i++) put(bits === 8 ? bytes[at + i]! : nibble(bytes[at + (i >> 1)]!, i))
      at += length + (length & 1)
    }
  }
  return indices
}

function nibble(byte: number, index: number): number {
  return (index & 1) === 0 ? byte >> 4 : byte & 15
}

function fromMasks(pixels: Uint8Array, stride: number, header: BitmapHeader): RgbImage {
  const { width, height, topDown, bits, masks } = header
  const view = viewOf(pixels)
  const [red, green, blue, alpha] = masks.map(channelOf) as [Channel, Channel, Channel, Channel]
  const size = bits / 8
  const data = new Uint8Array(width * height * 3)
  const read = (at: number) => {
    if (size === 2) return view.getUint16(at, true)
    return size === 4 ? view.getUint32(at, true) : pixels[at]! | (pixels[at + 1]! << 8) | (pixels[at + 2]! << 16)
  }
  // Many programs leave the alpha at 0 throughout: a file that is transparent everywhere is meant to be opaque.
  let isClear = masks[3] !== 0
  for (let y = 0; isClear && y < height; y++) {
    for (let x = 0; isClear && x < width; x++) isClear = alpha(read(y * stride + x * size)) === 0
  }
  const isOpaque = masks[3] === 0 || isClear
  for (let y = 0, o = 0; y < height; y++) {
    const row = (topDown ? y : height - 1 - y) * stride
    for (let x = 0; x < width; x++) {
      const pixel = read(row + x * size)
      const share = isOpaque ? 1 : alpha(pixel) / 255
      for (const channel of [red, green, blue]) data[o++] = Math.round(255 + (channel(pixel) - 255) * share)
    }
  }
  return { width, height, data }
}

/** A channel of a pixel, from 0 to 255. */
type Channel = (pixel: number) => number

function channelOf(mask: number): Channel {
  if (mask === 0) return () => 0
  const shift = 31 - Math.clz32(mask & -mask)
  const most = mask >>> shift
  return (pixel) => (((pixel & mask) >>> shift) * 255) / most
}

function viewOf({ buffer, byteOffset, byteLength }: Uint8Array): DataView {
  return new DataView(buffer, byteOffset, byteLength)
}

function damaged(): InvalidMedia {
  return new InvalidMedia('The image is damaged or truncated')
}
