import { randomBytes } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'

/**
 * Writes a secret into a file that its owner alone can read, from the first byte on. A file or a link that has the name is
 * replaced: nothing is written through it.
 * @throws Error that names the file.
 */
export async function writeSecret(path: string, secret: string): Promise<void> {
  const draft = `${path}.${randomBytes(8).toString('hex')}`
  try {
    await fill(draft, `${secret}\n`)
    await rename(draft, path)
  } catch (error) {
    await rm(draft, { force: true }).catch(() => {})
    throw new Error(`${path} cannot be written: ${(error as NodeJS.ErrnoException).code}`)
  }
}

async function fill(path: string, text: string): Promise<void> {
  await using file = await open(path, 'wx', 0o600)
  await file.writeFile(text)
  // The file may be the only place that has the secret.
  await file.sync()
}
