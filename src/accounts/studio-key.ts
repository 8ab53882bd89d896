import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { writeSecret } from '../lib/secrets/secret-file.ts'
import { isApiKey, newApiKey } from './api-key.ts'

/**
 * The key in the link that `lookout serve` prints for the Studio. It lives in the data directory, readable by its owner
 * alone, so that yesterday's link still works. Users who can read the file can make keys anyway. Delete the file to revoke the key.
 */
export async function openStudioKey(dataDirectory: string): Promise<string> {
  const path = join(dataDirectory, 'studio-key')
  const known = (await readFile(path, 'utf8').catch(() => '')).trim()
  const key = isApiKey(known) ? known : newApiKey()
  // Restoring a backup may have left it readable by others.
  if (key !== known || ((await stat(path)).mode & 0o077) !== 0) await writeSecret(path, key)
  return key
}
