import { createHmac, timingSafeEqual } from 'node:crypto'
import { deflateRawSync, inflateRawSync } from 'node:zlib'

const SIGNATURE_BYTES = 16

/**
 * Packs a text that a client stores for the server, so that it cannot be altered or used elsewhere. The client can read
 * it.
 * @param context what the text is valid for; it is only part of the signature.
 */
export function seal(text: string, secret: string, context: readonly string[]): string {
  const packed = deflateRawSync(text)
  return Buffer.concat([signatureOf(packed, secret, context), packed]).toString('base64url')
}

/** @returns the text; null for anything that was not sealed with this secret and this context. */
export function unseal(sealed: string, secret: string, context: readonly string[]): string | null {
  const bytes = Buffer.from(sealed, 'base64url')
  if (bytes.length <= SIGNATURE_BYTES || bytes.toString('base64url') !== sealed) return null
  const packed = bytes.subarray(SIGNATURE_BYTES)
  if (!timingSafeEqual(bytes.subarray(0, SIGNATURE_BYTES), signatureOf(packed, secret, context))) return null
  return inflateRawSync(packed).toString()
}

function signatureOf(packed: Buffer, secret: string, context: readonly string[]): Buffer {
  const signed = createHmac('sha256', secret).update(JSON.stringify(context)).update(packed)
  return signed.digest().subarray(0, SIGNATURE_BYTES)
}
