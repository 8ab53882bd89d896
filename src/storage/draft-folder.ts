import { randomBytes } from 'node:crypto'
import { type FileHandle, mkdir, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { serviceUnavailable } from '../errors.ts'
import type { Draft } from './blob-store.ts'
import { FolderLock, LOCK_FILE } from './folder-lock.ts'

const RETRY_AFTER_S = 30
const WRITE_BYTES = 2 ** 20

/** Takes the finished file at `path` away, and gives it the name. */
type Keep = (path: string, name: string) => Promise<void>

/** A folder for files that are being written. What a crash leaves in it is removed when it is next opened by one alone. */
export class DraftFolder {
  readonly #directory: string
  readonly #lock: FolderLock | null
  /** Nobody else had the folder open when this one opened it. */
  readonly alone: boolean

  private constructor(directory: string, alone: boolean) {
    this.#directory = directory
    this.alone = alone
    this.#lock = FolderLock.shared(directory)
  }

  static async open(directory: string): Promise<DraftFolder> {
    await mkdir(directory, { recursive: true, mode: 0o700 })
    using exclusive = FolderLock.exclusive(directory)
    if (exclusive) {
      for (const name of await readdir(directory)) {
        if (!name.startsWith(LOCK_FILE)) await rm(join(directory, name), { recursive: true, force: true })
      }
    }
    const alone = exclusive !== null
    exclusive?.[Symbol.dispose]()
    return new DraftFolder(directory, alone)
  }

  async begin(keep: Keep): Promise<Draft> {
    const path = join(this.#directory, randomBytes(12).toString('hex'))
    return new FileDraft(path, await withRoom(() => open(path, 'wx', 0o600)), keep)
  }

  close(): void {
    this.#lock?.[Symbol.dispose]()
  }
}

class FileDraft implements Draft {
  readonly #path: string
  readonly #file: FileHandle
  readonly #keep: Keep
  #pieces: Uint8Array[] = []
  #bytes = 0
  #writing: Promise<void> = Promise.resolve()

  constructor(path: string, file: FileHandle, keep: Keep) {
    this.#path = path
    this.#file = file
    this.#keep = keep
  }

  /** Pieces are written together, while the next ones come. */
  async write(bytes: Uint8Array): Promise<void> {
    this.#pieces.push(bytes)
    this.#bytes += bytes.length
    if (this.#bytes >= WRITE_BYTES) await this.#writeOn()
  }

  /** Begins to write what there is, once what was begun before is written. */
  async #writeOn(): Promise<void> {
    await this.#writing
    const pieces = this.#pieces
    this.#pieces = []
    this.#bytes = 0
    this.#writing = withRoom(() => writeAll(this.#file, pieces))
    // Heard with the next piece, or at the end.
    this.#writing.catch(() => {})
  }

  /** The bytes are on the disk before they get their name. */
  async keep(name: string): Promise<void> {
    await this.#writeOn()
    await this.#writing
    await withRoom(async () => {
      await this.#file.sync()
      await this.#file.close()
      await this.#keep(this.#path, name)
    })
  }

  async discard(): Promise<void> {
    await this.#writing.catch(() => {})
    await this.#file.close().catch(() => {})
    await rm(this.#path, { force: true })
  }
}

async function writeAll(file: FileHandle, pieces: readonly Uint8Array[]): Promise<void> {
  let rest = pieces
  while (rest.length > 0) {
    let { bytesWritten } = await file.writev(rest)
    // A disk that has room for a part of it only says so with the next try.
    const first = rest.findIndex((piece) => {
      if (bytesWritten < piece.length) return true
      bytesWritten -= piece.length
      return false
    })
    rest = first < 0 ? [] : [rest[first]!.subarray(bytesWritten), ...rest.slice(first + 1)]
  }
}

const NO_ROOM = ['ENOSPC', 'EDQUOT', 'EIO', 'EROFS', 'EMFILE', 'ENFILE']

/** Turns the disk's refusals into an answer. */
async function withRoom<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (!NO_ROOM.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    throw serviceUnavailable('The server has no room to store the file; try again later', RETRY_AFTER_S, error)
  }
}
