/** WASI's error numbers for failures of a disk, which PGlite's file system reports. */
const NAMES: Readonly<Record<number, string>> = {
  2: 'EACCES: permission denied',
  29: 'EIO: the disk failed',
  31: 'EISDIR: a folder is where a file should be',
  33: 'EMFILE: too many open files',
  44: 'ENOENT: a file is missing',
  51: 'ENOSPC: no space left on the disk',
  54: 'ENOTDIR: a file is where a folder should be',
  63: 'EPERM: operation not permitted',
  69: 'EROFS: the file system is read-only',
}

/** Why an embedded database does not open, for an operator. PGlite also throws objects that are not errors. */
export function describeFailure(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error)
  if ('errno' in error && typeof error.errno === 'number' && !('syscall' in error)) {
    return NAMES[error.errno] ?? `its file system reports error ${error.errno}`
  }
  const message = 'message' in error ? String(error.message) : JSON.stringify(error)
  // The message of an abort does not name the cause: PostgreSQL writes it to a log that is not kept.
  if (/^Aborted|failed to initialize/.test(message))
    return 'PostgreSQL cannot start on its files; they may be damaged, or belong to another user'
  return message
}
