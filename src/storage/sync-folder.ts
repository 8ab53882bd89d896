import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** The number of Node's threads. */
const AT_ONCE = 4

/** Writes a folder's names to the disk, so that a loss of power costs none of them. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path)
  await folder.sync().catch((error: NodeJS.ErrnoException) => {
    // Some file systems, such as VirtualBox's shared folders, cannot sync a folder; PostgreSQL accepts that too.
    if (error.code !== 'EINVAL') throw error
  })
}

/** Writes a folder and all that is in it to the disk. */
export async function syncTree(path: string): Promise<void> {
  const names = ['', ...(await readdir(path, { recursive: true }))].values()
  const sync = async () => {
    for (const name of names) await syncFolder(join(path, name))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, sync))
}
