import { hash, randomBytes } from 'node:crypto'

/** What a key permits. `admin` is for the operator's own tools and includes the others. */
export const SCOPES = ['inference', 'files', 'watch', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const VISIBLE = 9

/** Creates a key: `lk-` and 256 random bits in 43 letters and digits. */
export function newApiKey(): string {
  return `lk-${base62(BigInt(`0x${randomBytes(32).toString('hex')}`), 43)}`
}

/** Whether the text has the form of a key from `newApiKey`. */
export function isApiKey(text: string): boolean {
  return /^lk-[0-9A-Za-z]{43}$/.test(text)
}

/** The form in which a key is stored. A key is random enough that a plain SHA-256 protects it. */
export function hashOf(key: string): string {
  return hash('sha256', key, 'hex')
}

/** The part of a key that lists show. */
export function visiblePart(key: string): string {
  return key.slice(0, VISIBLE)
}

/** Writes a number with exactly `length` digits. The texts sort as the numbers do. */
export function base62(value: bigint, length: number): string {
  let text = ''
  for (let rest = value; text.length < length; rest /= 62n) text = DIGITS[Number(rest % 62n)] + text
  return text
}
