import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import type { BlobStore, ByteRange, Draft, KnownNames } from './blob-store.ts'
import { DraftFolder } from './draft-folder.ts'

/** A younger blob may belong to another server on the same folder that has not written its row yet. */
const YOUNG_MS = 3_600_000
const SWEEP_NAMES = 1_000
const READ_BYTES = 256 * 1024

/** Stores blobs as files in one folder. */
export class DiskBlobs implements BlobStore {
  readonly #directory: string
  readonly #drafts: DraftFolder

  private constructor(directory: string, drafts: DraftFolder) {
    this.#directory = directory
    this.#drafts = drafts
  }

  static async open(directory: string): Promise<DiskBlobs> {
    const drafts = await DraftFolder.open(join(directory, 'drafts'))
    const root = join(directory, 'kept')
    await mkdir(root, { recursive: true, mode: 0o700 })
    return new DiskBlobs(root, drafts)
  }

  draft(): Promise<Draft> {
    return this.#drafts.begin(async (draft, name) => {
      const path = this.#path(name)
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      await rename(draft, path)
      await syncFolder(dirname(path))
    })
  }

  async read(name: string, range: ByteRange | null, signal?: AbortSignal): Promise<Readable | null> {
    let file: FileHandle
    try {
      file = await open(this.#path(name))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
      throw error
    }
    const part = range ? { start: range.first, end: range.last } : {}
    return file.createReadStream({ ...part, highWaterMark: READ_BYTES, ...(signal ? { signal } : {}) })
  }

  async remove(name: string): Promise<void> {
    await rm(this.#path(name), { force: true })
  }

  async sweep(known: KnownNames): Promise<number> {
    let names: string[] = []
    let removed = 0
    const sweep = async () => {
      const keep = await known(names)
      for (const name of names) {
        if (keep.has(name) || !(await this.#mayRemove(name))) continue
        await this.remove(name)
        removed++
      }
      names = []
    }
    for await (const name of this.#names()) {
      names.push(name)
      if (names.length === SWEEP_NAMES) await sweep()
    }
    if (names.length > 0) await sweep()
    return removed
  }

  async *#names(): AsyncGenerator<string, void, void> {
    for (const folder of await readdir(this.#directory)) {
      for (const shelf of await readdir(join(this.#directory, folder))) {
        for (const file of await readdir(join(this.#directory, folder, shelf))) yield `${folder}/${file}`
      }
    }
  }

  /** Alone on the folder, a server may remove files that are older than itself; beside others, only old ones. */
  async #mayRemove(name: string): Promise<boolean> {
    const written = await stat(this.#path(name)).then(
      ({ mtimeMs }) => mtimeMs,
      () => Number.POSITIVE_INFINITY,
    )
    return written < (this.#drafts.alone ? performance.timeOrigin : Date.now() - YOUNG_MS)
  }

  async close(): Promise<void> {
    this.#drafts.close()
  }

  /** `folder/name` is stored in a subfolder named by the last two characters of the name, to keep folders small. */
  #path(name: string): string {
    const [folder, file] = name.split('/') as [string, string]
    return join(this.#directory, folder, file.slice(-2), file)
  }
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
