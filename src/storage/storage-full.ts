import { ApiError } from '../lib/errors/errors.ts'

const RETRY_AFTER_S = 30

/** Codes of systems and of PostgreSQL (`disk_full`) for a disk without room. */
const FULL: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT', '53100'])

export function isFull(code: string | undefined): boolean {
  return FULL.has(code)
}

/** The disk is full, which only the operator can change. Clients see that, and the log names what has no room. */
export class StorageFullError extends ApiError {
  constructor(what: 'the database' | 'files', cause: unknown) {
    super(`The server's storage is full: it has no room for ${what}; try again later`, {
      ...{ status: 503, type: 'server_error', retryAfter: RETRY_AFTER_S, cause },
    })
  }
}
