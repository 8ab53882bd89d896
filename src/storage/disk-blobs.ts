import { open, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { makeFolder } from '../lib/make-folder.ts'
import { type BlobStore, type ListedBlob, MARKS } from './blob-store.ts'
import { openDrafts } from './draft-folder.ts'
import { syncFolder } from './sync-folder.ts'

/** A younger blob may belong to another server on the same folder that has not written its row yet. */
const YOUNG_MS = 3_600_000
const LISTED_AT_ONCE = 1_000
const READ_BYTES = 256 * 1024

/** Stores blobs as files in one folder. */
export async function openDiskBlobs(directory: string): Promise<BlobStore> {
  const drafts = await openDrafts(join(directory, 'drafts'))
  const root = join(directory, 'kept')
  const marks = join(directory, MARKS)
  await makeFolder(root)

  /** `folder/name` is stored in a subfolder named by the last two characters of the name, to keep folders small. */
  const pathOf = (name: string) => {
    const [folder, file] = name.split('/') as [string, string]
    return join(root, folder, file.slice(-2), file)
  }
  async function* allNames(): AsyncGenerator<string, void, void> {
    for (const folder of await entries(root)) {
      for (const shelf of await entries(join(root, folder))) {
        for (const file of await entries(join(root, folder, shelf))) yield `${folder}/${file}`
      }
    }
  }
  /** Alone on the folder, a server may remove files that are older than itself; beside others, only old ones. */
  const isSettled = async (path: string) => {
    const written = (await stat(path).catch(() => null))?.mtimeMs ?? Number.POSITIVE_INFINITY
    return written < (drafts.alone ? performance.timeOrigin : Date.now() - YOUNG_MS)
  }
  return {
    draft: () =>
      drafts.begin(async (draft, name) => {
        const path = pathOf(name)
        await makeFolder(dirname(path))
        await rename(draft, path)
        await syncFolder(dirname(path))
      }),

    async read(name, range, signal) {
      const file = await open(pathOf(name)).catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return null
        throw error
      })
      if (file === null) return null
      const part = range ? { start: range.first, end: range.last } : {}
      return file.createReadStream({ ...part, highWaterMark: READ_BYTES, ...(signal ? { signal } : {}) })
    },

    remove: (name) => rm(pathOf(name), { force: true }),

    async *list() {
      let listed: ListedBlob[] = []
      for await (const name of allNames()) {
        listed.push({ name, isSettled: () => isSettled(pathOf(name)) })
        if (listed.length < LISTED_AT_ONCE) continue
        yield listed
        listed = []
      }
      yield listed
    },

    async marks() {
      return (await entries(marks)).map((name) => ({ name, isSettled: () => isSettled(join(marks, name)) }))
    },

    async mark(id) {
      await makeFolder(marks)
      await writeFile(join(marks, id), '')
    },

    async close() {
      drafts.close()
    },
  }
}

/** The names in a folder; none if it is not a folder. */
async function entries(path: string): Promise<string[]> {
  return readdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return []
    throw error
  })
}
