import { createHmac, randomBytes } from 'node:crypto'
import type { EventType } from '../events/watch-events.ts'

/** Where a client wants the events of a watch to be sent. */
export interface WebhookSettings {
  readonly url: string
  /** Types of the events that are sent; all by default. */
  readonly types?: readonly EventType[] | undefined
  /** Signs them. Without one, the webhook keeps its secret, or gets a new one. */
  readonly secret?: string | undefined
}

/** What clients see of a webhook, without its secret. */
export interface WebhookReport {
  readonly url: string
  readonly types: readonly EventType[]
  /** `ended` when its receiver said that it wants no more. */
  readonly status: 'active' | 'ended'
  /** Events that are still to be sent. */
  readonly pending: number
  readonly lastError: string | null
}

const PREFIX = 'whsec_'
const SECRET_BYTES = 32
const LEAST_BYTES = 24
const MOST_BYTES = 64

export function newSecret(): string {
  return `${PREFIX}${randomBytes(SECRET_BYTES).toString('base64')}`
}

/** Whether a text is a secret as Standard Webhooks writes them: 24 to 64 bytes in base64. */
export function isSecret(text: string): boolean {
  const key = text.slice(PREFIX.length)
  const bytes = Buffer.from(key, 'base64')
  const isBase64 = text.startsWith(PREFIX) && bytes.toString('base64') === key
  return isBase64 && bytes.byteLength >= LEAST_BYTES && bytes.byteLength <= MOST_BYTES
}

/** The headers of Standard Webhooks. @param seconds Unix time at which the message is sent. */
export function signedHeaders(
  message: { readonly id: string; readonly body: string },
  secret: string,
  seconds: number,
) {
  const { id, body } = message
  const key = Buffer.from(secret.slice(PREFIX.length), 'base64')
  const signature = createHmac('sha256', key).update(`${id}.${seconds}.${body}`).digest('base64')
  return { 'webhook-id': id, 'webhook-timestamp': String(seconds), 'webhook-signature': `v1,${signature}` }
}
