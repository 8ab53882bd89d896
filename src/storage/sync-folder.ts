import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** As many as Node's threads. */
const AT_ONCE = 4

/** Has a folder's names on the disk, so that a loss of power costs none of them. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path)
  await folder.sync()
}

/** The same with all that is in it. */
export async function syncTree(path: string): Promise<void> {
  const names = ['', ...(await readdir(path, { recursive: true }))].values()
  const sync = async () => {
    for (const name of names) await syncFolder(join(path, name))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, sync))
}
