import { createHash, randomBytes } from 'node:crypto'
import { type FileHandle, mkdir, mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { serviceUnavailable } from '../lib/errors.ts'
import { HEAD_BYTES } from './media-type.ts'

/** Of all media on its way at once: enough for some requests that each name eight of the largest files at a time. */
const CAPACITY_BYTES = 4 * 2 ** 30
const RETRY_AFTER_S = 10
/** What a disk or the system says when it can take no more. */
const NO_ROOM = ['ENOSPC', 'EDQUOT', 'EIO', 'EROFS', 'EMFILE', 'ENFILE']

export interface SpoolOptions {
  /** A folder for nothing else; one of the spool's own among the system's temporary files unless given. */
  readonly directory?: string | undefined
  /** On the disk at a time. */
  readonly capacityBytes?: number | undefined
}

/**
 * Media on its way from its address to a decoder, as files: however much a request names, memory holds no more of it than
 * the pieces that are just arriving. Files that nobody uses stay until their request ends, in case it names them again, or
 * until others need the room.
 */
export class Spool {
  readonly #given: string | undefined
  readonly #capacityBytes: number
  #directory: Promise<string> | null = null
  #bytes = 0
  /**
   * Files that nobody uses, the one unused for longest first. Not an LRU cache: files in use and files that are still being
   * written count towards the capacity, but only idle ones can make room.
   */
  readonly #idle = new Set<SpooledFile>()

  constructor({ directory, capacityBytes = CAPACITY_BYTES }: SpoolOptions = {}) {
    this.#given = directory
    this.#capacityBytes = capacityBytes
  }

  /**
   * Writes the pieces to a file as they come.
   * @throws ApiError 503 when there is no room for them, and whatever the pieces throw.
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
        await withRoom(() => writeAll(file, piece))
      }
      await withRoom(() => file.close())
    } catch (error) {
      await file.close().catch(() => {})
      await this.#remove(path, size)
      throw error
    }
    const spooled = new SpooledFile(
      { path, head: head.subarray(0, HEAD_BYTES), digest: hash.digest('base64') },
      {
        used: () => this.#idle.delete(spooled),
        unused: () => this.#idle.add(spooled),
        gone: () => {
          this.#idle.delete(spooled)
          void this.#remove(path, size)
        },
      },
    )
    this.#idle.add(spooled)
    return spooled
  }

  /** What is not removed by then is left to whoever empties the folder. */
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
    // A file that cannot be removed now goes with the folder.
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
    await mkdir(this.#given, { recursive: true, mode: 0o700 })
    return this.#given
  }
}

interface Owner {
  used(): void
  unused(): void
  gone(): void
}

/** Media in a file of the spool. */
export class SpooledFile implements Disposable {
  readonly path: string
  /** The first bytes, which tell the type. */
  readonly head: Uint8Array
  /** SHA-256 of all of it, in base64. */
  readonly digest: string
  readonly #owner: Owner
  #uses = 0
  #isWanted = true

  constructor({ path, head, digest }: Pick<SpooledFile, 'path' | 'head' | 'digest'>, owner: Owner) {
    this.path = path
    this.head = head
    this.digest = digest
    this.#owner = owner
  }

  /** The file stays until what this gives is disposed of. Null when it has gone already. */
  use(): Disposable | null {
    if (!this.#isWanted) return null
    this.#uses++
    this.#owner.used()
    let isDone = false
    return {
      [Symbol.dispose]: () => {
        if (isDone) return
        isDone = true
        if (--this.#uses > 0) return
        if (this.#isWanted) this.#owner.unused()
        else this.#owner.gone()
      },
    }
  }

  /** Nobody will use it anew; it goes when those have done who use it now. */
  [Symbol.dispose](): void {
    if (!this.#isWanted) return
    this.#isWanted = false
    if (this.#uses === 0) this.#owner.gone()
  }
}

async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.byteLength; ) written += (await file.write(bytes, written)).bytesWritten
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
