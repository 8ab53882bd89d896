import { randomBytes } from 'node:crypto'
import { rename, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/**
 * Replaces a file, or an empty folder, completely or not at all.
 * @param write creates the replacement at a temporary path next to it.
 */
export async function replaceFile(path: string, write: (draft: string) => Promise<void>): Promise<void> {
  const draft = join(dirname(path), `.${basename(path)}.${randomBytes(8).toString('hex')}.part`)
  try {
    await write(draft)
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { recursive: true, force: true }).catch(() => {})
    throw error
  }
}
