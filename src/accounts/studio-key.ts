import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isApiKey, newApiKey } from './api-key.ts'

/**
 * The key in the link that `lookout serve` prints for the Studio. It lives in the data directory, readable by its owner
 * alone, so that the link of yesterday still works; whoever can read it can make keys anyway. Delete the file to revoke it.
 */
export async function openStudioKey(dataDirectory: string): Promise<string> {
  const path = join(dataDirectory, 'studio-key')
  const known = await readFile(path, 'utf8').catch(() => '')
  if (isApiKey(known.trim())) return known.trim()
  const key = newApiKey()
  const draft = `${path}.${process.pid}`
  await writeFile(draft, `${key}\n`, { mode: 0o600 })
  await rename(draft, path)
  return key
}
