/** The contract's image types, told from the first bytes. Null for anything else. */
export type ImageType = 'image/png' | 'image/jpeg' | 'image/webp'

export const IMAGE_TYPES: readonly ImageType[] = ['image/png', 'image/jpeg', 'image/webp']

export function imageType(bytes: Uint8Array): ImageType | null {
  if (startsWith(bytes, 0, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])) return 'image/png'
  if (startsWith(bytes, 0, [0xff, 0xd8, 0xff])) return 'image/jpeg'
  if (startsWith(bytes, 0, ascii('RIFF')) && startsWith(bytes, 8, ascii('WEBP'))) return 'image/webp'
  return null
}

/** A name for the commonest refused types, so that the error can say what was sent. */
export function refusedType(bytes: Uint8Array): string {
  if (startsWith(bytes, 0, ascii('GIF8'))) return 'image/gif'
  if (startsWith(bytes, 0, ascii('BM'))) return 'image/bmp'
  if (startsWith(bytes, 0, ascii('%PDF'))) return 'application/pdf'
  if (startsWith(bytes, 4, ascii('ftypavif'))) return 'image/avif'
  if (startsWith(bytes, 4, ascii('ftyphei')) || startsWith(bytes, 4, ascii('ftypmif1'))) return 'image/heic'
  if (startsWith(bytes, 4, ascii('ftyp'))) return 'video/mp4'
  if (startsWith(bytes, 0, [0x1a, 0x45, 0xdf, 0xa3])) return 'video/webm'
  if (/^\s*<(\?xml|svg|!doctype svg)/i.test(Buffer.from(bytes.subarray(0, 64)).toString('latin1')))
    return 'image/svg+xml'
  if (/^\s*<(!doctype html|html)/i.test(Buffer.from(bytes.subarray(0, 64)).toString('latin1'))) return 'text/html'
  return 'an unknown type'
}

function startsWith(bytes: Uint8Array, offset: number, expected: readonly number[]): boolean {
  return expected.every((byte, i) => bytes[offset + i] === byte)
}

function ascii(text: string): number[] {
  return [...text].map((character) => character.charCodeAt(0))
}
