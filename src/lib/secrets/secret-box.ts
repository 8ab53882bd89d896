import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

/** Prefix of encrypted texts; no text that is stored unencrypted may begin with it. */
const PREFIX = 'sealed:'
const CIPHER = 'aes-256-gcm'
const KEY_BYTES = 32
const NONCE_BYTES = 12
const TAG_BYTES = 16

/**
 * Encrypts secrets that the server must read again, such as signing keys of webhooks, before they are stored: with
 * AES-256-GCM, and a key derived from the setting `LOOKOUT_SECRET`.
 */
export class SecretBox {
  readonly #key: Uint8Array | null

  /** @param secret random, at least 32 characters; null to store texts unencrypted. */
  constructor(secret: string | null) {
    this.#key = secret === null ? null : new Uint8Array(hkdfSync('sha256', secret, '', 'stored secrets', KEY_BYTES))
  }

  /** Whether it encrypts. */
  get isLocked(): boolean {
    return this.#key !== null
  }

  /** @param context what the text belongs to; it cannot be decrypted for anything else. */
  seal(text: string, context: string): string {
    if (this.#key === null) return text
    const nonce = randomBytes(NONCE_BYTES)
    const cipher = createCipheriv(CIPHER, this.#key, nonce, { authTagLength: TAG_BYTES }).setAAD(Buffer.from(context))
    const encrypted = Buffer.concat([nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()])
    return `${PREFIX}${encrypted.toString('base64url')}`
  }

  /** @returns the text; null if it was encrypted with another secret or for another context, or was altered. */
  open(stored: string, context: string): string | null {
    if (!isSealed(stored)) return stored
    const bytes = Buffer.from(stored.slice(PREFIX.length), 'base64url')
    if (this.#key === null || bytes.length < NONCE_BYTES + TAG_BYTES) return null
    const decipher = createDecipheriv(CIPHER, this.#key, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
    decipher.setAAD(Buffer.from(context)).setAuthTag(bytes.subarray(-TAG_BYTES))
    try {
      return decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES), undefined, 'utf8') + decipher.final('utf8')
    } catch {
      return null
    }
  }
}

function isSealed(stored: string): boolean {
  return stored.startsWith(PREFIX)
}
