import { invalidRequest } from '../errors.ts'
import type { GuardedFetcher } from './guarded-fetch.ts'

const DATA_URL = /^data:[^,]*,/i
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/

/**
 * The bytes behind a URL that a client wrote: http(s) or a base64 data URL, in any spelling a WHATWG parser accepts.
 * What the bytes are is told by the bytes, never by the declared type.
 *
 * @throws ApiError 400 naming `param`.
 */
export async function readMedia(
  url: string,
  fetcher: GuardedFetcher,
  param: string,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const trimmed = url.trim()
  if (trimmed === '') throw invalidRequest('The address is empty', param)
  if (/^data:/i.test(trimmed)) return decodeDataUrl(trimmed, param)
  if (!URL.canParse(trimmed)) {
    throw invalidRequest('The address is neither a valid http(s) URL nor a base64 data URL', param)
  }
  return fetcher.fetch(new URL(trimmed), param, signal)
}

function decodeDataUrl(url: string, param: string): Uint8Array {
  const head = DATA_URL.exec(url)?.[0]
  if (!head || !/;base64,$/i.test(head)) {
    throw invalidRequest('A data URL must have the form data:<type>;base64,<data>', param)
  }
  let body = url.slice(head.length)
  if (body.includes('%')) body = decodePercent(body, param)
  // Line breaks are common in pasted base64, and the URL-safe alphabet in tokens; both are unambiguous.
  body = body.replace(/\s+/g, '').replaceAll('-', '+').replaceAll('_', '/')
  if (!BASE64.test(body) || body.replace(/=+$/, '').length % 4 === 1) {
    throw invalidRequest('The data URL does not hold valid base64', param)
  }
  const bytes = Buffer.from(body, 'base64')
  if (bytes.length === 0) throw invalidRequest('The data URL is empty', param)
  return bytes
}

function decodePercent(body: string, param: string): string {
  try {
    return decodeURIComponent(body)
  } catch (cause) {
    throw invalidRequest('The data URL does not hold valid base64', param, { cause })
  }
}
