import { constants, type FileHandle, open, rm } from 'node:fs/promises'
import { FullDiskError, HubError } from '../hub-error.ts'
import { type Attempts, newPatience } from './attempts.ts'
import { type ByteRange, missingOf } from './byte-ranges.ts'
import { journalPath, openJournal } from './journal.ts'
import { ChangedError, type RemoteFile } from './remote-file.ts'

export interface DownloadOptions extends Attempts {
  /** @param done bytes of the file that are there. */
  readonly onProgress: (done: number) => void
}

/** A file that changes more often than this during the download is given up. */
const MAX_CHANGES = 3

/**
 * Fetches a file in parts over several connections, and resumes an earlier attempt. Afterwards the file is complete on
 * the disk, but not checked, and its journal is still beside it.
 * @param path of the incomplete file.
 * @param key identifies the content: an earlier attempt is resumed only if it had the same key.
 * @throws HubError; ConnectionError when the server stays unavailable; the signal's reason.
 */
export async function download(remote: RemoteFile, path: string, key: string, given: DownloadOptions): Promise<void> {
  const options = { ...given, note: withoutRepeats(given.note) }
  for (let changes = 0; ; changes++) {
    try {
      return await fetchParts(remote, path, key, options)
    } catch (error) {
      if (!(error instanceof ChangedError)) throw error
      if (changes === MAX_CHANGES) throw new HubError(`${error.message} repeatedly: try again later`)
      await discardDownload(path)
      remote.validator = null
      options.note(`${error.message}; fetching it from its beginning`)
    }
  }
}

/** Connections often fail together, with the same words. */
function withoutRepeats(note: (message: string) => void): (message: string) => void {
  let last = ''
  return (message) => {
    if (message !== last) note(message)
    last = message
  }
}

/** Deletes an incomplete file and its journal. */
export async function discardDownload(path: string): Promise<void> {
  await rm(journalPath(path), { force: true })
  await rm(path, { force: true })
}

async function fetchParts(remote: RemoteFile, path: string, key: string, options: DownloadOptions): Promise<void> {
  const { tuning, signal, onProgress } = options
  const size = await remote.size(options)
  const journal = await openJournal(path, key, size)
  await using file = await open(path, constants.O_RDWR | constants.O_CREAT).catch((error: unknown) => {
    throw diskError(error, path)
  })
  // The file may be gone or truncated although its journal is there: then the journal is wrong.
  const { size: there } = await file.stat()
  if (journal.done.some(([, to]) => to > there)) {
    await journal.remove()
    return await fetchParts(remote, path, key, options)
  }
  if (journal.etag !== null) remote.validator = journal.etag
  let done = journal.doneBytes
  onProgress(done)
  // A server that ignores ranges sends everything to each connection.
  const [partBytes, connections] = remote.takesRanges ? [tuning.partBytes, tuning.connections] : [size, 1]
  const parts = missingOf(journal.done, size, partBytes)
  const failed = new AbortController()
  const worker = async () => {
    for (let part = parts.shift(); part !== undefined; part = parts.shift()) await fetchPart(part)
  }
  const fetchPart = async ([from, to]: ByteRange) => {
    let at = from
    const either = AbortSignal.any([signal, failed.signal])
    const patience = newPatience(tuning.partAttempts, { ...options, signal: either })
    try {
      while (at < to) {
        try {
          for await (const piece of remote.stream(at, to, either)) {
            await writeAll(file, piece, at)
            at += piece.length
            done += piece.length
            patience.reset()
            onProgress(done)
          }
        } catch (error) {
          await patience.wait(error)
          remote.forget()
        }
      }
    } finally {
      if (at > from) {
        await file.datasync()
        await journal.add([from, at], remote.validator)
      }
    }
  }
  const workers = Array.from({ length: Math.min(connections, parts.length) }, () =>
    worker().catch((error: unknown) => failed.abort(error)),
  )
  await Promise.all(workers)
  signal.throwIfAborted()
  failed.signal.throwIfAborted()
  await file.truncate(size)
  await file.sync()
}

async function writeAll(file: FileHandle, piece: Buffer, position: number): Promise<void> {
  for (let written = 0; written < piece.length; ) {
    try {
      written += (await file.write(piece, written, piece.length - written, position + written)).bytesWritten
    } catch (error) {
      throw diskError(error, 'the file')
    }
  }
}

/** Turns a disk's error into one for the user. */
export function diskError(error: unknown, path: string): unknown {
  const { code } = error as NodeJS.ErrnoException
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    return new FullDiskError(
      'The disk is full. Free some space, or set HF_HOME to a folder on another disk; then run the same command to resume',
    )
  }
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') {
    const problem = (what: string) => `${what} cannot be written: set HF_HOME to a folder that can be`
    return new HubError(problem(path), { told: problem('The folder of the cache') })
  }
  return error
}
