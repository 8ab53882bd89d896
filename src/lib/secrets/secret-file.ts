import { writeFile } from 'node:fs/promises'
import { replaceFile } from '../replace-file.ts'

/**
 * Writes a secret into a file that only its owner can read, from the first byte on. An existing file or link with this
 * name is replaced: nothing is written through it.
 * @throws Error that names the file.
 */
export async function writeSecret(path: string, secret: string): Promise<void> {
  // The file may be the only copy of the secret.
  const options = { flag: 'wx', mode: 0o600, flush: true }
  await replaceFile(path, (draft) => writeFile(draft, `${secret}\n`, options)).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${path} cannot be written: ${error.code}`)
  })
}
