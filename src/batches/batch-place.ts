import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeFolder } from '../lib/make-folder.ts'
import { replaceFile } from '../lib/replace-file.ts'
import { FolderLock } from '../storage/folder-lock.ts'

/** Identifies a folder, so that a server recognises the leases of servers that ran in the same place before. */
export interface BatchPlace {
  /** Stays the same for as long as the folder does. */
  readonly id: string
  /** Whether no other server runs here. Earlier leases of this place are then free. */
  readonly alone: boolean
}

/** Opens a place. Until it is disposed of, servers that open it later share it. */
export async function openBatchPlace(directory: string): Promise<BatchPlace & Disposable> {
  await makeFolder(directory)
  const exclusive = FolderLock.exclusive(directory)
  const id = await placeId(join(directory, 'place'))
  exclusive?.[Symbol.dispose]()
  const lock = FolderLock.shared(directory)
  return { id, alone: exclusive !== null, [Symbol.dispose]: () => lock?.[Symbol.dispose]() }
}

async function placeId(path: string): Promise<string> {
  const known = await readFile(path, 'utf8').catch(() => '')
  if (/^[0-9a-f]{16}$/.test(known)) return known
  const id = randomBytes(8).toString('hex')
  await replaceFile(path, (draft) => writeFile(draft, id, { mode: 0o600 }))
  return id
}
