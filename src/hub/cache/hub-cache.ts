import {
  lstat,
  open,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  rmdir,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { dirname, join, relative, resolve, sep } from 'node:path'
import { makeFolder } from '../../lib/make-folder.ts'
import { replaceFile } from '../../lib/replace-file.ts'
import type { HubFile } from '../download/hub-client.ts'
import { COMMIT, isPlainSubpath } from './safe-names.ts'

/**
 * One repository in the cache that huggingface_hub, transformers, vLLM and llama.cpp share:
 *
 *     models--owner--name/refs/main                    the commit
 *     models--owner--name/snapshots/<commit>/<path>    a link to the blob
 *     models--owner--name/blobs/<hash>                 the bytes
 */
export class CachedRepository {
  readonly folder: string
  readonly id: string

  constructor(root: string, id: string) {
    this.folder = join(root, `models--${id.replace('/', '--')}`)
    this.id = id
  }

  blob(name: string): string {
    return join(this.folder, 'blobs', name)
  }

  snapshot(commit: string, path = ''): string {
    return join(this.folder, 'snapshots', commit, path)
  }

  /** The commit of a branch when the hub was last asked. */
  async commit(revision: string): Promise<string | null> {
    if (COMMIT.test(revision)) return revision
    if (!isPlainSubpath(revision)) return null
    const text = await readFile(join(this.folder, 'refs', revision), 'utf8').catch(() => '')
    return COMMIT.test(text.trim()) ? text.trim() : null
  }

  async noteCommit(revision: string, commit: string): Promise<void> {
    if (COMMIT.test(revision) || !isPlainSubpath(revision)) return
    const path = join(this.folder, 'refs', revision)
    if ((await this.commit(revision)) === commit) return
    await makeFolder(dirname(path), 0o777)
    await writeAtomically(path, commit)
  }

  /** The files of a commit that are here and complete. */
  async files(commit: string): Promise<HubFile[]> {
    const folder = this.snapshot(commit)
    const names = await readdir(folder, { recursive: true }).catch(() => [])
    const found: HubFile[] = []
    for (const name of names) {
      const entry = await stat(join(folder, name)).catch(() => null)
      if (entry?.isFile()) found.push({ path: name.split(sep).join('/'), size: entry.size, blob: null })
    }
    return found
  }

  /** Whether all bytes of the file are here, linked into the commit's snapshot or not. */
  async has(commit: string, { path, size, blob }: HubFile): Promise<boolean> {
    if (await hasSize(this.snapshot(commit, path), size)) return true
    return blob !== null && hasSize(this.blob(blob), size)
  }

  /**
   * Creates the snapshot's entry of a file whose blob is here. If the file system has no links, the file itself becomes
   * the entry, as in huggingface_hub.
   * @returns its path.
   */
  async link(commit: string, { path, size, blob }: HubFile): Promise<string> {
    const entry = this.snapshot(commit, path)
    if (blob === null || ((await hasSize(entry, size)) && !(await hasSize(this.blob(blob), size)))) return entry
    const target = relative(dirname(entry), this.blob(blob))
    if ((await readlink(entry).catch(() => null)) === target) return entry
    await makeFolder(dirname(entry), 0o777)
    const draft = `${entry}.${process.pid}.link`
    await rm(draft, { force: true })
    try {
      await symlink(target, draft)
    } catch (error) {
      if (!['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP'].includes((error as NodeJS.ErrnoException).code ?? ''))
        throw error
      await rename(this.blob(blob), entry)
      return entry
    }
    await rename(draft, entry)
    return entry
  }

  /** Absolute paths of the blobs that entries of snapshots lead to, other than the entries given. */
  async linkedBlobs(except: ReadonlySet<string>): Promise<Set<string>> {
    const folder = join(this.folder, 'snapshots')
    const names = await readdir(folder, { recursive: true }).catch(() => [])
    const blobs = new Set<string>()
    for (const entry of names.map((name) => join(folder, name))) {
      if (except.has(entry)) continue
      const target = await readlink(entry).catch(() => null)
      if (target !== null) blobs.add(resolve(dirname(entry), target))
    }
    return blobs
  }

  /** The blob of a snapshot's entry, or the entry itself if it is no link. Null for a path outside this repository. */
  async blobOf(entry: string): Promise<string | null> {
    if (!isWithin(join(this.folder, 'snapshots'), entry)) return null
    const found = await lstat(entry).catch(() => null)
    if (found === null) return null
    if (!found.isSymbolicLink()) return found.isFile() ? entry : null
    const target = resolve(dirname(entry), await readlink(entry))
    return isWithin(join(this.folder, 'blobs'), target) ? target : null
  }

  /** The entries of a file in the snapshots of other commits. */
  async ofOtherCommits(entry: string): Promise<string[]> {
    const snapshots = join(this.folder, 'snapshots')
    const [own, ...path] = relative(snapshots, entry).split(sep)
    const commits = (await readdir(snapshots).catch(() => [])).filter((commit) => commit !== own)
    const entries = commits.map((commit) => join(snapshots, commit, ...path))
    const found = await Promise.all(entries.map((other) => stat(other).catch(() => null)))
    return entries.filter((_, i) => found[i]?.isFile())
  }

  /** Removes folders of the repository that are empty now. */
  async prune(): Promise<void> {
    await removeEmptyFolders(join(this.folder, 'snapshots'))
    const blobs = await readdir(join(this.folder, 'blobs')).catch(() => [])
    const snapshots = await readdir(join(this.folder, 'snapshots')).catch(() => [])
    if (blobs.length === 0 && snapshots.length === 0) await rm(this.folder, { recursive: true, force: true })
  }
}

export async function hasSize(path: string, size: number): Promise<boolean> {
  const entry = await stat(path).catch(() => null)
  return entry?.isFile() === true && entry.size === size
}

export function isWithin(folder: string, path: string): boolean {
  return resolve(path).startsWith(resolve(folder) + sep)
}

/** Replaces the text atomically: a reader sees the old text or the new one. */
export function writeAtomically(path: string, text: string): Promise<void> {
  return replaceFile(path, (draft) => writeFile(draft, text, { flush: true }))
}

/** Makes a rename survive a loss of power. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => null)
  try {
    await folder?.sync()
  } catch {
    // Not every file system can sync a folder.
  } finally {
    await folder?.close()
  }
}

/** The path with links resolved, if it exists. */
export async function realOr(path: string): Promise<string> {
  return realpath(path).catch(() => resolve(path))
}

async function removeEmptyFolders(folder: string): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => [])
  for (const entry of entries) if (entry.isDirectory()) await removeEmptyFolders(join(folder, entry.name))
  // It fails for a folder that is not empty.
  await rmdir(folder).catch(() => {})
}
