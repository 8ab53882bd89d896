import { invalidRequest } from '../lib/errors/errors.ts'
import type { InlineMedia } from './inline-media.ts'
import type { LiveFrame } from './live/live-frame.ts'

/** Ends the head of a data URL with base64. Browsers allow blanks in it. */
const BASE64_MARK = /; *base64[ \t\n\f\r]*,/i
/** No head is longer. Searching further would take long in a text without a mark. */
const HEAD_CHARACTERS = 1_024
/** A head up to a comma in the value of a parameter. */
const OPEN_PARAMETER = /;[^;,=]+=[^;,]*$/
const NOT_BASE64 = /[^A-Za-z0-9+/]/

/** A client's reference to media. */
export type MediaReference =
  /** http(s) or a data URL, in any spelling that a WHATWG parser accepts. */
  | { readonly type: 'url'; readonly url: string }
  | { readonly type: 'base64'; readonly data: string }
  | { readonly type: 'inline'; readonly media: InlineMedia }
  /** An uploaded file. */
  | { readonly type: 'file'; readonly id: string }
  /** A decoded frame of a camera. */
  | { readonly type: 'frame'; readonly frame: LiveFrame }

/** A parsed reference: the bytes, or where to get them. */
export type Located =
  | { readonly type: 'bytes'; readonly bytes: Uint8Array }
  | { readonly type: 'address'; readonly url: URL }
  | { readonly type: 'file'; readonly id: string }

/** The path of a stored file's content. The host does not matter: the server may have several public names. */
const CONTENT_PATH = /\/v1\/files\/(file-[A-Za-z0-9_-]+)\/content\/?$/

const TEXT_URL = /^\s*data:(?:text\/|application\/json\b)/i

/** Whether a reference is a data URL whose declared type is a text. */
export function isTextUrl(reference: string): boolean {
  return TEXT_URL.test(reference.slice(0, 100))
}

/** @throws ApiError 400 naming `param`. */
export function locate(reference: MediaReference, param: string): Located {
  if (reference.type === 'frame') throw new Error('A camera’s frame is read as a picture, and whole')
  if (reference.type === 'file') return reference
  if (reference.type === 'inline') return { type: 'bytes', bytes: notEmpty(reference.media.bytes, param) }
  const trimmed = (reference.type === 'url' ? reference.url : reference.data).trim()
  if (/^data:/i.test(trimmed)) return { type: 'bytes', bytes: decodeDataUrl(trimmed, param) }
  if (reference.type === 'base64') return { type: 'bytes', bytes: decodeBase64(trimmed, param) }
  if (trimmed === '') throw invalidRequest('The URL is empty', param)
  if (!URL.canParse(trimmed)) {
    throw invalidRequest('The URL must be a valid http(s) URL or a base64 data URL', param)
  }
  const url = new URL(trimmed)
  const stored = CONTENT_PATH.exec(url.pathname)?.[1]
  return stored === undefined ? { type: 'address', url } : { type: 'file', id: stored }
}

/**
 * Decodes a data URL by the Fetch standard. Its declared type is ignored. Beyond the standard, values of parameters may
 * contain commas: `FileReader` writes `data:video/webm;codecs=vp8,opus;base64,` for recordings of `MediaRecorder`.
 */
function decodeDataUrl(url: string, param: string): Uint8Array {
  const comma = url.indexOf(',')
  if (comma === -1) throw invalidRequest('A data URL must have the form data:<type>;base64,<data>', param)
  const fragment = url.indexOf('#', comma)
  const whole = fragment === -1 ? url : url.slice(0, fragment)
  const mark = BASE64_MARK.exec(whole.slice(0, HEAD_CHARACTERS))
  if (mark !== null && isHead(whole, comma, mark.index)) {
    const body = whole.slice(mark.index + mark[0].length)
    return decodeBase64(body.includes('%') ? decodePercent(body).toString('latin1') : body, param)
  }
  return notEmpty(decodePercent(whole.slice(comma + 1).replace(/[\t\n\r]/g, '')), param)
}

/**
 * Whether the text before the mark is a type with its parameters, rather than the start of a text that quotes a data
 * URL.
 */
function isHead(url: string, comma: number, mark: number): boolean {
  return comma > mark || (OPEN_PARAMETER.test(url.slice(0, comma)) && !/[<>%]/.test(url.slice(comma, mark)))
}

function decodeBase64(text: string, param: string): Uint8Array {
  return notEmpty(decodePlain(text) ?? decodeSpaced(text, param), param)
}

/**
 * The decoder skips characters that it does not know, so if the number of bytes matches that of characters, all were
 * valid. Checking them first would take as long as decoding.
 * @returns null for a text that has anything but base64 in it.
 */
function decodePlain(text: string): Uint8Array | null {
  const digits = text.length - /=*$/.exec(text.slice(-2))![0].length
  const bytes = Buffer.from(text, 'base64')
  return digits % 4 !== 1 && bytes.length === Math.floor((digits * 3) / 4) ? bytes : null
}

/** Line breaks are common in pasted base64, and the URL-safe alphabet in tokens; both are unambiguous. */
function decodeSpaced(text: string, param: string): Uint8Array {
  const body = text.replace(/\s+/g, '').replaceAll('-', '+').replaceAll('_', '/')
  const padding = body.indexOf('=')
  const digits = padding === -1 ? body : body.slice(0, padding)
  const isValid = !NOT_BASE64.test(digits) && digits.length % 4 !== 1 && body.length - digits.length <= 2
  if (!isValid || !/^=*$/.test(body.slice(digits.length))) {
    throw invalidRequest('The data is not valid base64', param)
  }
  return Buffer.from(body, 'base64')
}

function notEmpty(bytes: Uint8Array, param: string): Uint8Array {
  if (bytes.byteLength === 0) throw invalidRequest('The data is empty', param)
  return bytes
}

/** Decodes percent-encoding to bytes. A `%` without two hexadecimal digits is kept. */
export function decodePercent(text: string): Buffer {
  const bytes = Buffer.from(text)
  let length = 0
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at]!
    const code = byte === PERCENT ? 16 * digitOf(bytes[at + 1]) + digitOf(bytes[at + 2]) : Number.NaN
    bytes[length++] = Number.isNaN(code) ? byte : code
    if (!Number.isNaN(code)) at += 2
  }
  return bytes.subarray(0, length)
}

const PERCENT = 0x25

/** NaN for other characters than hexadecimal digits. */
function digitOf(code = 0): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const letter = code | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : Number.NaN
}
