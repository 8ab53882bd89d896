import { type ApiError, invalidRequest } from '../lib/errors/errors.ts'
import { adviceFor, audioType, MEDIA_TYPES, type MediaType, mediaType, typeName } from '../media/media-type.ts'

/** The type of batches' inputs and outputs. */
export const JSON_LINES = 'application/jsonl'

const SUPPORTED = Object.values(MEDIA_TYPES).flat()

/** Other names for the same types. */
const ALIASES: Readonly<Record<string, MediaType>> = {
  'image/jpg': 'image/jpeg',
  'image/pjpeg': 'image/jpeg',
  'image/x-png': 'image/png',
  'image/x-bmp': 'image/bmp',
  'image/x-ms-bmp': 'image/bmp',
  'audio/x-wav': 'audio/wav',
  'audio/wave': 'audio/wav',
  'audio/vnd.wave': 'audio/wav',
  'audio/mp3': 'audio/mpeg',
  'audio/x-mp3': 'audio/mpeg',
  'audio/x-flac': 'audio/flac',
  'audio/x-pn-wav': 'audio/wav',
  'audio/mpeg3': 'audio/mpeg',
  'audio/x-mpeg': 'audio/mpeg',
  'application/x-pdf': 'application/pdf',
  'audio/x-m4a': 'audio/mp4',
  'audio/m4a': 'audio/mp4',
  'audio/m4b': 'audio/mp4',
  'audio/x-m4b': 'audio/mp4',
  'audio/mp4a-latm': 'audio/mp4',
  'audio/opus': 'audio/ogg',
  'audio/vorbis': 'audio/ogg',
  'audio/x-ogg': 'audio/ogg',
  'application/ogg': 'audio/ogg',
  'audio/aacp': 'audio/aac',
  'audio/x-aac': 'audio/aac',
  'audio/x-hx-aac-adts': 'audio/aac',
  'audio/vnd.dlna.adts': 'audio/aac',
  'audio/3gpp': 'audio/mp4',
  'audio/3gpp2': 'audio/mp4',
  'video/3gpp': 'video/mp4',
  'video/3gpp2': 'video/mp4',
  'video/x-m4v': 'video/mp4',
  'video/m4v': 'video/mp4',
}
/** The same container in three dialects. Clients tell them apart by the file's name. */
const ISO_MEDIA: readonly string[] = ['video/mp4', 'video/quicktime', 'audio/mp4']
/** Types that clients declare when they do not know the type. */
const UNDECLARED = ['application/octet-stream', 'binary/octet-stream', 'text/plain', '']

/**
 * The type of an upload, detected from its first bytes. For a container that may hold only sound, the declared type
 * decides.
 * @throws ApiError 400 for a type that is not supported, or one that differs from the declared type.
 */
export function contentTypeOf(head: Uint8Array, declared: string): MediaType {
  const type = mediaType(head)
  const claim = claimOf(declared)
  if (type === null) throw unsupported(typeName(head), declared)
  if (claim !== null && !names(claim, type, head)) throw differs(claim, `is '${type}'`)
  const sound = audioType(type)
  return claim !== null && named(claim) === sound ? sound : type
}

function named(claim: string): string {
  return ALIASES[claim] ?? claim
}

function names(claim: string, type: MediaType, head: Uint8Array): boolean {
  const claimed = named(claim)
  if (claimed === type || claimed === audioType(type) || (ISO_MEDIA.includes(claimed) && ISO_MEDIA.includes(type)))
    return true
  // An ID3 tag, as in MP3s, may be longer than the head, and FLAC or AAC may follow it.
  return ['audio/flac', 'audio/aac'].includes(claimed) && Buffer.from(head.subarray(0, 3)).toString('latin1') === 'ID3'
}

/** Whether the client says that a file is media that can be uploaded. */
export function isDeclaredMedia(declared: string): boolean {
  const claim = claimOf(declared)
  return claim !== null && isSupported(claim)
}

/** The declared type; null if the client does not know it. */
function claimOf(declared: string): string | null {
  const sent = sentType(declared)
  return UNDECLARED.includes(sent) ? null : sent
}

function sentType(declared: string): string {
  return declared.toLowerCase().split(';', 1)[0]!.trim().slice(0, 100)
}

/** @param name of the detected type, from `typeName`. */
function unsupported(name: string, declared: string): ApiError {
  const claim = claimOf(declared)
  const isKnown = name.includes('/')
  // Calling the declared type unsupported would contradict the list of supported types.
  if (!isKnown && claim !== null && isSupported(claim)) return differs(claim, 'its bytes are of an unknown type')
  const shown = isKnown ? name : sentType(declared) || 'application/octet-stream'
  const also = claim === null || claim === shown ? '' : ` (declared as '${claim}')`
  const types = `${SUPPORTED.join(', ')}${adviceFor(shown)}`
  return invalidRequest(`Unsupported content type '${shown}'${also}. Supported types: ${types}`, 'file')
}

function isSupported(claim: string): boolean {
  return SUPPORTED.some((type) => type === named(claim))
}

function differs(claim: string, actually: string): ApiError {
  return invalidRequest(`The file is declared as '${claim}' but ${actually}`, 'file')
}
