import { createHmac, randomBytes } from 'node:crypto'
import { link, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolder } from '../../lib/make-folder.ts'

/** The file with the secret for the names of folders. */
const SECRET_FILE = 'secret'
const SECRET_BYTES = 32

/**
 * Creates the folder of the prefix cache on disk, unless it exists. Only the server's user has access.
 * @returns the secret for the names of organisations' folders.
 */
export async function openPrefixFolder(directory: string): Promise<Buffer> {
  await makeFolder(directory)
  const file = join(directory, SECRET_FILE)
  const known = await readFile(file).catch(() => null)
  if (known?.length === SECRET_BYTES) return known
  if (known !== null) await rm(file, { force: true })
  const draft = `${file}-${randomBytes(8).toString('hex')}`
  await writeFile(draft, randomBytes(SECRET_BYTES), { flag: 'wx', mode: 0o600, flush: true })
  // If several servers start at once, one of them creates the secret.
  await link(draft, file).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error
  })
  await rm(draft, { force: true })
  return readFile(file)
}

/** Folder of an organisation. Its name reveals nothing without the secret. */
export function organisationFolder(secret: Uint8Array, organisation: string): string {
  return createHmac('sha256', secret).update(organisation).digest('hex').slice(0, 32)
}

/**
 * Removes an organisation's prefix cache on disk for good: a file replaces its folder, so that nothing is stored there again.
 */
export async function removeFromPrefixFolder(directory: string, organisation: string): Promise<void> {
  const secret = await readFile(join(directory, SECRET_FILE)).catch(() => null)
  if (secret === null) return
  const folder = join(directory, organisationFolder(secret, organisation))
  await rm(folder, { recursive: true, force: true })
  await writeFile(folder, '', { mode: 0o600 })
}
