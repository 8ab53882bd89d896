import { type ApiError, serviceUnavailable } from '../lib/errors/errors.ts'

const RETRY_AFTER_S = 30

/** Codes of systems and of PostgreSQL (`disk_full`) for a disk without room. */
const FULL: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT', '53100'])

export function isFull(code: string | undefined): boolean {
  return FULL.has(code)
}

/** The disk is full, which only the operator can change: clients learn it, and the log names what has no room. */
export function storageFull(what: 'the database' | 'files', cause: unknown): ApiError {
  return serviceUnavailable(
    `The server's storage is full: it has no room for ${what}; try again later`,
    RETRY_AFTER_S,
    cause,
  )
}
