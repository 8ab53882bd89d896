import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

const CIPHER = 'aes-256-gcm'
const NONCE_BYTES = 12
const TAG_BYTES = 16

/**
 * Encrypts a text that is stored where others may read it.
 * @param context what it is valid for; the same must be given to decrypt it.
 */
export function encrypt(text: string, secret: string, context: readonly string[]): string {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(CIPHER, keyOf(secret), nonce).setAAD(Buffer.from(JSON.stringify(context)))
  const encrypted = Buffer.concat([cipher.update(text), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), encrypted]).toString('base64url')
}

/** @returns the text; null for anything that was not encrypted with this secret in this context. */
export function decrypt(encrypted: string, secret: string, context: readonly string[]): string | null {
  const bytes = Buffer.from(encrypted, 'base64url')
  const [tagAt, textAt] = [NONCE_BYTES, NONCE_BYTES + TAG_BYTES]
  try {
    const decipher = createDecipheriv(CIPHER, keyOf(secret), bytes.subarray(0, tagAt), { authTagLength: TAG_BYTES })
    decipher.setAAD(Buffer.from(JSON.stringify(context))).setAuthTag(bytes.subarray(tagAt, textAt))
    return Buffer.concat([decipher.update(bytes.subarray(textAt)), decipher.final()]).toString()
  } catch {
    return null
  }
}

function keyOf(secret: string): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, '', 'lookout', 32))
}
