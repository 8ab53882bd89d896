import { createHash } from 'node:crypto'

/** Separates the caches of organisations on the servers. */
export function saltOf(organisation: string): string {
  return createHash('sha256').update(`lookout ${organisation}`).digest('hex')
}
