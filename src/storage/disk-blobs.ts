import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import type { BlobStore, ByteRange, Draft, KnownNames } from './blob-store.ts'
import { DraftFolder } from './draft-folder.ts'

/** Beside other servers on the same folder, a blob this young may be another's that is not in the database yet. */
const YOUNG_MS = 3_600_000
const SWEEP_NAMES = 1_000
const READ_BYTES = 256 * 1024

/** Blobs as files of one folder. */
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
        if (keep.has(name) || !(await this.#mayGo(name))) continue
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

  /** Alone, whatever is older than this process is nobody's; beside others, only what is old. */
  async #mayGo(name: string): Promise<boolean> {
    const written = await stat(this.#path(name)).then(
      ({ mtimeMs }) => mtimeMs,
      () => Number.POSITIVE_INFINITY,
    )
    return written < (this.#drafts.alone ? performance.timeOrigin : Date.now() - YOUNG_MS)
  }

  async close(): Promise<void> {
    this.#drafts.close()
  }

  /** `folder/name` lies on a shelf of the folder, by the last two characters of the name: folders stay small. */
  #path(name: string): string {
    const [folder, file] = name.split('/') as [string, string]
    return join(this.#directory, folder, file.slice(-2), file)
  }
}

async function syncFolder(path: string): Promise<void> {
  // Windows cannot, and does not need to.
  if (process.platform === 'win32') return
  const folder = await open(path)
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
