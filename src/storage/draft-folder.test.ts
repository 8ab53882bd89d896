import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openDrafts } from './draft-folder.ts'
import { FolderLock } from './folder-lock.ts'

test('a folder is not used while another server is clearing it', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'lookout-drafts-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const clearing = FolderLock.exclusive(directory)!
  const opening = openDrafts(directory)
  const waiting = delay(200, 'waiting')
  expect(await Promise.race([opening.then(() => 'open'), waiting])).toBe('waiting')
  clearing[Symbol.dispose]()
  const folder = await opening
  expect(folder.alone).toBe(false)
  // From here on, no other server can clear it.
  expect(FolderLock.exclusive(directory)).toBeNull()
  folder.close()
})
