import { invalidRequest } from '../lib/errors.ts'
import { MEDIA_TYPES, type MediaType, mediaType, typeName } from '../media/index.ts'

/** The type of batches' inputs and outputs. */
export const JSON_LINES = 'application/jsonl'

const SUPPORTED = Object.values(MEDIA_TYPES).flat()

/** Other names for the same types. */
const ALIASES: Readonly<Record<string, MediaType>> = {
  'image/jpg': 'image/jpeg',
  'image/pjpeg': 'image/jpeg',
  'image/x-png': 'image/png',
  'audio/x-wav': 'audio/wav',
  'audio/wave': 'audio/wav',
  'audio/vnd.wave': 'audio/wav',
  'audio/mp3': 'audio/mpeg',
  'audio/x-mp3': 'audio/mpeg',
  'audio/x-flac': 'audio/flac',
  'audio/webm': 'video/webm',
  'audio/mp4': 'video/mp4',
}
/** Types that clients declare when they do not know the type. */
const UNDECLARED = ['application/octet-stream', 'binary/octet-stream', 'text/plain', '']

/**
 * The type of an upload, detected from its first bytes.
 * @throws ApiError 400 for a type that is not supported, or one that differs from the declared type.
 */
export function contentTypeOf(head: Uint8Array, declared: string): MediaType {
  const type = mediaType(head)
  const claim = declared.toLowerCase().split(';', 1)[0]!.trim()
  if (type === null) {
    const name = typeName(head)
    const shown = name.includes('/') ? name : UNDECLARED.includes(claim) ? 'application/octet-stream' : claim
    throw invalidRequest(
      `Unsupported content type '${shown.slice(0, 100)}'. Supported types: ${SUPPORTED.join(', ')}`,
      'file',
    )
  }
  if (!UNDECLARED.includes(claim) && (ALIASES[claim] ?? claim) !== type) {
    throw invalidRequest(`The file is declared as '${claim.slice(0, 100)}' but is '${type}'`, 'file')
  }
  return type
}
