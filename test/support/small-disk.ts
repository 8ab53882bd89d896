import { execFileSync } from 'node:child_process'
import { statfsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Mounts a small disk. @returns its folder; null where that is not possible: it requires root on Linux. */
export async function mountSmallDisk(): Promise<string | null> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return null
  const directory = await mkdtemp(join(tmpdir(), 'lookout-small-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=80m', 'tmpfs', directory], { stdio: 'ignore' })
    return directory
  } catch {
    await rm(directory, { recursive: true })
    return null
  }
}

export async function unmount(directory: string): Promise<void> {
  execFileSync('umount', [directory])
  await rm(directory, { recursive: true, force: true })
}

/** Fills the disk to the last byte. */
export async function fill(path: string): Promise<void> {
  const { bavail, bsize } = statfsSync(join(path, '..'))
  await writeFile(path, Buffer.alloc(bavail * bsize)).catch((error: NodeJS.ErrnoException) => {
    // The server writes at the same time.
    if (error.code !== 'ENOSPC') throw error
  })
}
