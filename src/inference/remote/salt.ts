import { createHash } from 'node:crypto'

/** Caches are never shared between organisations. */
export function saltOf(organisation: string): string {
  return createHash('sha256').update(`lookout ${organisation}`).digest('hex')
}
