import { createHash, randomBytes } from 'node:crypto'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serviceUnavailable } from '../../lib/errors/errors.ts'
import { makeFolder } from '../../lib/make-folder.ts'
import { HEAD_BYTES } from '../media-type.ts'

/** Limit for all spooled media: enough for several concurrent requests with eight of the largest files each. */
const CAPACITY_BYTES = 4 * 2 ** 30
const RETRY_AFTER_S = 10
/** Error codes of a disk or system that is full or failing. */
const NO_ROOM = ['ENOSPC', 'EDQUOT', 'EIO', 'EROFS', 'EMFILE', 'ENFILE']

export interface SpoolOptions {
  /** A folder used for nothing else; by default a new one in the system's temporary folder. */
  readonly directory?: string | undefined
  /** The most bytes on the disk at a time. */
  readonly capacityBytes?: number | undefined
}

/**
 * Stores media in files between fetching and decoding, so that memory holds only the pieces that are arriving, however
 * much a request names. An unused file stays until its request ends, in case the request names it again, or until
 * others need the space.
 */
export class Spool {
  readonly #given: string | undefined
  readonly #capacityBytes: number
  #directory: Promise<string> | null = null
  #bytes = 0
  /**
   * Unused files, the least recently used first. It is not an LRU cache: files in use and files that are still being
   * written count towards the capacity, but only unused ones can make room.
   */
  readonly #idle = new Set<SpooledFile>()

  constructor({ directory, capacityBytes = CAPACITY_BYTES }: SpoolOptions = {}) {
    this.#given = directory
    this.#capacityBytes = capacityBytes
  }

  /**
   * Writes the pieces to a file as they arrive.
   * @throws ApiError 503 when there is no room, and any error of the pieces.
   */
  async keep(pieces: AsyncIterable<Uint8Array>): Promise<SpooledFile> {
    const path = join(await withRoom(() => this.#open()), randomBytes(12).toString('hex'))
    const file = await withRoom(() => open(path, 'wx', 0o600))
    const hash = createHash('sha256')
    let head = Buffer.alloc(0)
    let size = 0
    try {
      for await (const piece of pieces) {
        this.#take(piece.byteLength)
        size += piece.byteLength
        if (head.length < HEAD_BYTES) head = Buffer.concat([head, piece.subarray(0, HEAD_BYTES)])
        hash.update(piece)
        await withRoom(() => file.writeFile(piece))
      }
      await withRoom(() => file.close())
    } catch (error) {
      await file.close().catch(() => {})
      await this.#remove(path, size)
      throw error
    }
    const about = { path, head: head.subarray(0, HEAD_BYTES), digest: hash.digest('base64'), byteLength: size }
    return spooledFile(about, this.#idle, () => void this.#remove(path, size))
  }

  /** Removes the spool's own folder. A folder given by the caller is the caller's to empty. */
  async close(): Promise<void> {
    if (this.#given !== undefined || this.#directory === null) return
    await rm(await this.#directory, { recursive: true, force: true })
  }

  #take(bytes: number): void {
    for (const file of this.#idle) {
      if (this.#bytes + bytes <= this.#capacityBytes) break
      file[Symbol.dispose]()
    }
    if (this.#bytes + bytes > this.#capacityBytes) throw noRoom(new Error('The spool is full'))
    this.#bytes += bytes
  }

  async #remove(path: string, size: number): Promise<void> {
    this.#bytes -= size
    // A file that cannot be removed now is removed with the folder.
    await rm(path, { force: true }).catch(() => {})
  }

  #open(): Promise<string> {
    this.#directory ??= this.#make()
    this.#directory.catch(() => {
      this.#directory = null
    })
    return this.#directory
  }

  async #make(): Promise<string> {
    if (this.#given === undefined) return mkdtemp(join(tmpdir(), 'lookout-media-'))
    await makeFolder(this.#given)
    return this.#given
  }
}

interface SpooledBytes {
  readonly path: string
  /** The first bytes, which determine the type. */
  readonly head: Uint8Array
  /** SHA-256 of the whole file, in base64. */
  readonly digest: string
  readonly byteLength: number
}

/** Media in a spool file. Disposing of it ends new uses: the file is removed when the current ones end. */
export interface SpooledFile extends SpooledBytes, Disposable {
  /** Keeps the file until the result is disposed of. Null when the file is removed already. */
  use(): Disposable | null
}

/** @param idle gets the file while it is not used. */
function spooledFile(about: SpooledBytes, idle: Set<SpooledFile>, remove: () => void): SpooledFile {
  let uses = 0
  let isWanted = true
  const file: SpooledFile = {
    ...about,
    use() {
      if (!isWanted) return null
      uses++
      idle.delete(file)
      let isDone = false
      return {
        [Symbol.dispose]() {
          if (isDone) return
          isDone = true
          if (--uses > 0) return
          if (isWanted) idle.add(file)
          else remove()
        },
      }
    },
    [Symbol.dispose]() {
      if (!isWanted) return
      isWanted = false
      idle.delete(file)
      if (uses === 0) remove()
    },
  }
  idle.add(file)
  return file
}

async function withRoom<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    if (!NO_ROOM.includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    throw noRoom(error)
  }
}

function noRoom(cause: unknown): Error {
  return serviceUnavailable(
    `The server has no room for more media at the moment. Try again in ${RETRY_AFTER_S} seconds.`,
    RETRY_AFTER_S,
    cause,
  )
}
