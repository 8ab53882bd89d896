/** The contract's media types and a few more, detected from the bytes. Declared types and file names are ignored. */
type ImageType = 'image/png' | 'image/jpeg' | 'image/webp' | 'image/bmp' | 'image/avif'
export type VideoType = 'video/mp4' | 'video/webm' | 'video/quicktime'
export type AudioType =
  | 'audio/wav'
  | 'audio/mpeg'
  | 'audio/flac'
  | 'audio/mp4'
  | 'audio/ogg'
  | 'audio/webm'
  | 'audio/aac'
  | 'audio/x-w64'
type DocumentType = 'application/pdf' | 'image/tiff'
export type MediaType = ImageType | VideoType | AudioType | DocumentType
/** A document is pages, each of which becomes an image. */
export type MediaKind = 'image' | 'video' | 'audio' | 'document'

/** All types that can be uploaded. QuickTime videos are accepted by upload only. */
export const MEDIA_TYPES: Readonly<Record<MediaKind, readonly MediaType[]>> = {
  image: ['image/png', 'image/jpeg', 'image/webp', 'image/bmp', 'image/avif'],
  video: ['video/mp4', 'video/webm', 'video/quicktime'],
  audio: ['audio/wav', 'audio/mpeg', 'audio/flac', 'audio/mp4', 'audio/ogg', 'audio/webm', 'audio/aac', 'audio/x-w64'],
  document: ['application/pdf', 'image/tiff'],
}

/** Names of files with sound alone. */
export const AUDIO_NAME = /\.(wav|mp3|flac|m4[ab]|og[ga]|opus|weba|aac)$/i

export function kindOfType(type: string): MediaKind | null {
  const kinds = Object.entries(MEDIA_TYPES) as [MediaKind, readonly string[]][]
  return kinds.find(([, types]) => types.includes(type))?.[0] ?? null
}

/** Number of bytes at the start of a file that determine its type. */
export const HEAD_BYTES = 1024
/** Enough for most types. */
const MARK_BYTES = 64

/** Passes the pieces of a file through. Its head is checked as soon as it is there, so that no more of a wrong file is read. */
export async function* headChecked(
  pieces: AsyncIterable<Uint8Array>,
  check: (head: Uint8Array) => void,
): AsyncGenerator<Uint8Array, void, void> {
  let head = Buffer.alloc(0)
  for await (const piece of pieces) {
    if (head.length < HEAD_BYTES) {
      head = Buffer.concat([head, piece.subarray(0, HEAD_BYTES)])
      if (head.length >= HEAD_BYTES) check(head)
    }
    yield piece
  }
  if (head.length < HEAD_BYTES) check(head)
}

/**
 * Video containers that may hold only sound, such as recordings of a browser: their heads do not tell. QuickTime is
 * left out, because it is accepted only as an uploaded video.
 */
const SOUND_OF: Readonly<Partial<Record<MediaType, AudioType>>> = {
  'video/mp4': 'audio/mp4',
  'video/webm': 'audio/webm',
}

/** The type of a file that is used as audio: a video container becomes that of its sound. */
export function audioType(type: MediaType): MediaType {
  return SOUND_OF[type] ?? type
}

export function mediaType(bytes: Uint8Array): MediaType | null {
  const name = typeName(bytes)
  return (
    Object.values(MEDIA_TYPES)
      .flat()
      .find((type) => type === name) ?? null
  )
}

/** Names the type. Knows many unsupported types as well, so that an error can name what was sent. */
export function typeName(bytes: Uint8Array): string {
  for (const [name, offset, expected] of SIGNATURES) if (startsWith(bytes, offset, expected)) return name
  if (startsWith(bytes, 0, ascii('BM')) && BITMAP_HEADERS.includes(bytes[14]!)) return 'image/bmp'
  if (startsWith(bytes, 4, ascii('ftyp'))) return brandName(latin1(bytes.subarray(8, MARK_BYTES)))
  if (startsWith(bytes, 0, [0x1a, 0x45, 0xdf, 0xa3])) return documentName(bytes)
  // WAVE for files of more than 4 GB, which broadcasters' recorders write at any length.
  if (['RF64', 'BW64'].includes(latin1(bytes.subarray(0, 4))) && startsWith(bytes, 8, ascii('WAVE'))) return 'audio/wav'
  if (startsWith(bytes, 0, ascii('RIFF'))) return RIFF_NAMES[latin1(bytes.subarray(8, 12))] ?? 'an unknown type'
  // QuickTime videos need not begin with their brand.
  if (['moov', 'mdat', 'wide', 'skip', 'pnot'].includes(latin1(bytes.subarray(4, 8)))) return 'video/quicktime'
  if (isMp3Frame(bytes)) return 'audio/mpeg'
  // ADTS starts with the same bits, but has layer 0.
  if (bytes[0] === 0xff && (bytes[1]! & 0xf6) === 0xf0) return 'audio/aac'
  if (isTarga(bytes)) return 'image/x-tga'
  const text = latin1(bytes.subarray(0, MARK_BYTES))
  if (/^(\xef\xbb\xbf)?\s*<(\?xml|svg|!doctype svg)/i.test(text)) return 'image/svg+xml'
  if (/^(\xef\xbb\xbf)?\s*<(!doctype html|html)/i.test(text)) return 'text/html'
  if (text.startsWith('#EXTM3U')) return 'application/vnd.apple.mpegurl'
  if (PDF_HEADER.test(latin1(bytes.subarray(0, HEAD_BYTES)))) return 'application/pdf'
  return 'an unknown type'
}

/** Blank lines, a byte order mark, or text of a mail or a printer may come before. */
const PDF_HEADER = /(?:^(?:\xef\xbb\xbf)?|[\r\n])[ \t]*%PDF-\d/

const SIGNATURES: readonly (readonly [name: string, offset: number, bytes: readonly number[]])[] = [
  ['image/png', 0, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]],
  ['image/jpeg', 0, [0xff, 0xd8, 0xff]],
  ['audio/flac', 0, ascii('fLaC')],
  ['audio/mpeg', 0, ascii('ID3')],
  ['audio/ogg', 0, ascii('OggS')],
  ['image/gif', 0, ascii('GIF8')],
  ['image/vnd.adobe.photoshop', 0, ascii('8BPS')],
  ['image/jxl', 0, [0xff, 0x0a]],
  ['image/jxl', 0, [0, 0, 0, 0x0c, ...ascii('JXL ')]],
  ['image/jp2', 0, [0, 0, 0, 0x0c, ...ascii('jP  ')]],
  ['image/x-icon', 0, [0, 0, 1, 0]],
  ['audio/x-w64', 0, [...ascii('riff'), 0x2e, 0x91, 0xcf, 0x11]],
  ['image/tiff', 0, [0x49, 0x49, 0x2a, 0x00]],
  ['image/tiff', 0, [0x4d, 0x4d, 0x00, 0x2a]],
  // BigTIFF.
  ['image/tiff', 0, [0x49, 0x49, 0x2b, 0x00]],
  ['image/tiff', 0, [0x4d, 0x4d, 0x00, 0x2b]],
  ['application/pdf', 0, ascii('%PDF')],
]

/** Sizes of the header that follows the file's own; each has its other bytes 0. */
const BITMAP_HEADERS = [12, 16, 40, 52, 56, 64, 108, 124]

const RIFF_NAMES: Readonly<Record<string, string>> = {
  WEBP: 'image/webp',
  WAVE: 'audio/wav',
  'AVI ': 'video/x-msvideo',
}

/**
 * The MP4 container is used for many other types.
 * @param brands the major brand, a version, and the compatible brands.
 */
function brandName(brands: string): string {
  const brand = brands.slice(0, 4)
  if (brand === 'qt  ') return 'video/quicktime'
  if (brand === 'avif' || brand === 'avis' || (brand === 'mif1' && brands.includes('avif'))) return 'image/avif'
  if (brand.startsWith('hei') || brand.startsWith('hev') || brand === 'mif1' || brand === 'msf1') return 'image/heic'
  if (brand === 'M4A ' || brand === 'M4B ') return 'audio/mp4'
  return 'video/mp4'
}

/** WebM is Matroska whose header has the DocType (element 0x4282) `webm`. */
function documentName(bytes: Uint8Array): string {
  const head = latin1(bytes.subarray(0, MARK_BYTES))
  const at = head.indexOf('\x42\x82')
  return at !== -1 && head.slice(at + 3).startsWith('webm') ? 'video/webm' : 'video/x-matroska'
}

/** Whether the bytes begin with a frame header of MPEG layer III. */
function isMp3Frame(bytes: Uint8Array): boolean {
  const [first, second, third] = bytes
  if (first !== 0xff || second === undefined || third === undefined || (second & 0xe0) !== 0xe0) return false
  const version = (second >> 3) & 3
  const layer = (second >> 1) & 3
  const bitrate = third >> 4
  const rate = (third >> 2) & 3
  return version !== 1 && layer === 1 && bitrate !== 15 && bitrate !== 0 && rate !== 3
}

/** Targa files begin with no mark: the fields of the header must fit each other. */
function isTarga(bytes: Uint8Array): boolean {
  const [, hasColours, kind] = bytes
  const isIndexed = kind === 1 || kind === 9
  const isDirect = kind === 2 || kind === 3 || kind === 10 || kind === 11
  if (!(isIndexed && hasColours === 1) && !(isDirect && hasColours === 0)) return false
  return bytes.length > 18 && [8, 15, 16, 24, 32].includes(bytes[16]!) && (bytes[17]! & 0xc0) === 0
}

/** Advice about an unsupported type, to append to the list of supported ones; empty for most. */
export function adviceFor(name: string): string {
  const advice = ADVICE[name]
  return advice === undefined ? '' : `; ${advice}`
}

const CONVERT = 'convert it to PNG or JPEG'
const ADVICE: Readonly<Record<string, string>> = {
  'image/heic': `this server has no decoder for HEIC: ${CONVERT} (an iPhone writes JPEG with the camera format Most Compatible)`,
  'image/gif': 'send the frames that matter as PNG',
  'image/tiff': 'a TIFF is a document, whose pages become images: send it in a file part or a document block',
  'image/svg+xml': 'render it to PNG',
  'image/x-icon': CONVERT,
  'image/x-tga': CONVERT,
  'image/vnd.adobe.photoshop': CONVERT,
  'image/jxl': CONVERT,
  'image/jp2': CONVERT,
  'application/pdf': 'a PDF is a document, whose pages become images: send it in a file part or a document block',
}

function startsWith(bytes: Uint8Array, offset: number, expected: readonly number[]): boolean {
  return expected.every((byte, i) => bytes[offset + i] === byte)
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('latin1')
}

function ascii(text: string): number[] {
  return [...text].map((character) => character.charCodeAt(0))
}
