import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeFolder } from './make-folder.ts'

test('several calls at once make the folders around theirs together', async () => {
  const root = await mkdtemp(join(tmpdir(), 'lookout-folders-'))
  onTestFinished(() => rm(root, { recursive: true }))
  const names = Array.from({ length: 16 }, (_, index) => String(index))
  for (let round = 0; round < 40; round++) {
    const around = join(root, String(round), 'files')
    await Promise.all(names.map((name) => makeFolder(join(around, name))))
    expect((await readdir(around)).toSorted()).toEqual(names.toSorted())
  }
})
