import { rename, rm, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { makeFolder } from '../../lib/make-folder.ts'
import { takeLock } from '../cache/blob-lock.ts'
import { hasSize, syncFolder } from '../cache/hub-cache.ts'
import { FullDiskError, HubError } from '../hub-error.ts'
import type { Tuning } from '../tuning.ts'
import { formatBytes } from '../units.ts'
import { blobName } from './checksum.ts'
import { type DownloadOptions, discardDownload, diskError, download } from './download.ts'
import { journalPath, openJournal } from './journal.ts'
import type { RemoteFile } from './remote-file.ts'

export interface FileTarget {
  /** Where to put the complete file. */
  readonly path: string
  readonly size: number
  /** Its hash on the hub; null when the hub gave none. */
  readonly blob: string | null
  /** Identifies the content: an earlier attempt is resumed only if it had the same key. */
  readonly key: string
}

/**
 * Whether the whole file is here. Without a hash, the journal beside it must have the same address, and the validator
 * that the server sends now.
 */
export async function isFetched(target: FileTarget, validator: string | null): Promise<boolean> {
  const { path, size, blob, key } = target
  if (!(await hasSize(path, size))) return false
  if (blob !== null) return true
  const { doneBytes, etag } = await openJournal(path, key, size)
  return doneBytes === size && etag !== null && etag === validator
}

export interface FetchOptions extends DownloadOptions {
  /** Called when all bytes are there and their hash is computed. */
  readonly onCheck: () => void
}

/**
 * Not huggingface_hub's own `.incomplete`: it would assume that a file with holes is complete up to its length.
 */
export function incompletePath(path: string): string {
  return `${path}.lookout.incomplete`
}

/**
 * Fetches a file to its path, where it appears complete and checked, or not at all. If another process is fetching it,
 * waits for that.
 * @returns false if it was there already.
 */
export async function fetchFile(remote: RemoteFile, target: FileTarget, options: FetchOptions): Promise<boolean> {
  const { path, size, blob, key } = target
  const { signal, tuning, note } = options
  const incomplete = incompletePath(path)
  await makeFolder(dirname(path), 0o777).catch((error: unknown) => {
    throw diskError(error, dirname(path))
  })
  const onWait = (pid: number | null) =>
    note(`another process${pid === null ? '' : ` (${pid})`} is downloading ${remote.name}; waiting for it`)
  await using _ = await takeLock(`${path}.lock`, { tuning, signal, onWait })
  if (await isFetched(target, remote.validator)) return false
  await download(remote, incomplete, key, options)
  if (blob !== null) {
    options.onCheck()
    const found = await blobName(incomplete, size, blob, signal)
    if (found !== blob) {
      await discardDownload(incomplete)
      throw new HubError(
        `${remote.name} of ${remote.origin} arrived damaged: its hash is ${found.slice(0, 12)}..., not ${blob.slice(0, 12)}... ` +
          'as the hub says. Its bytes were deleted. Run the same command again; if that does not help, try without a mirror or proxy',
      )
    }
  }
  await rm(journalPath(path), { force: true })
  await rename(incomplete, path)
  await syncFolder(dirname(path))
  if (blob === null) await rename(journalPath(incomplete), journalPath(path))
  else await rm(journalPath(incomplete), { force: true })
  return true
}

/** @throws HubError when the disk has no room for the missing parts of the files. */
export async function checkSpace(targets: readonly FileTarget[], tuning: Pick<Tuning, 'spareBytes'>): Promise<void> {
  let missing = 0
  for (const { path, size, key } of targets) {
    missing += size - (await openJournal(incompletePath(path), key, size)).doneBytes
  }
  const [first] = targets
  if (first === undefined || missing <= 0) return
  const folder = await existingFolder(dirname(first.path))
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  if (free >= missing + tuning.spareBytes) return
  const problem = (disk: string) =>
    `${disk} has ${formatBytes(free)} free, but ${formatBytes(missing)} are to be downloaded and ` +
    `${formatBytes(tuning.spareBytes)} must stay free. Free some space, or set HF_HOME to a folder on another disk`
  throw new FullDiskError(problem(`The disk of ${folder}`), { told: problem('The disk') })
}

async function existingFolder(path: string): Promise<string> {
  const found = await statfs(path).catch(() => null)
  return found !== null || dirname(path) === path ? path : existingFolder(dirname(path))
}
