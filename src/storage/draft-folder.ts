import { randomBytes } from 'node:crypto'
import { type FileHandle, open, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { serviceUnavailable } from '../lib/errors/errors.ts'
import { makeFolder } from '../lib/make-folder.ts'
import type { Draft } from './blob-store.ts'
import { FolderLock } from './folder-lock.ts'
import { isFull, StorageFullError } from './storage-full.ts'

const RETRY_AFTER_S = 30
/** How long to wait for another server that holds the folder exclusively to clear it. */
const SHARING_TIMEOUT_MS = 60_000
const SHARING_RETRY_MS = 20
const BLOCK_BYTES = 2 ** 20
const SYNC_BYTES = 16 * 2 ** 20

/** Names of drafts, and of media that is being decoded. The operator may keep other files in the same folder. */
const DRAFT = /^[0-9a-f]{24}$/

/** Moves the finished file from `path` to its place under a name. */
type Keep = (path: string, name: string) => Promise<void>

/** A folder for files that are being written. A server that opens it alone removes files that a crash has left. */
export async function openDrafts(directory: string) {
  await makeFolder(directory)
  using exclusive = FolderLock.exclusive(directory)
  if (exclusive) {
    for (const name of await readdir(directory)) {
      if (DRAFT.test(name)) await rm(join(directory, name), { force: true })
    }
  }
  exclusive?.[Symbol.dispose]()
  const lock = await share(directory)
  return {
    /**
     * Whether no other process had the folder open when this one opened it. Between this one's two locks, another
     * process may have found the same. That one cleared the folder before this one had drafts in it, and this one's are
     * younger than either.
     */
    alone: exclusive !== null,
    async begin(keep: Keep): Promise<Draft> {
      const path = join(directory, randomBytes(12).toString('hex'))
      return new FileDraft(path, await withRoom(() => open(path, 'wx', 0o600)), keep)
    },
    close: () => lock[Symbol.dispose](),
  }
}

/** Waits for a server that is clearing the folder: it would remove drafts that were started without a lock. */
async function share(directory: string): Promise<FolderLock> {
  for (const end = performance.now() + SHARING_TIMEOUT_MS; performance.now() < end; await delay(SHARING_RETRY_MS)) {
    const lock = FolderLock.shared(directory)
    if (lock !== null) return lock
  }
  throw new Error(`${directory} is locked by another server`)
}

class FileDraft implements Draft {
  readonly #path: string
  readonly #file: FileHandle
  readonly #keep: Keep
  /** Pieces are collected in one block while the other one is being written. */
  readonly #blocks = [Buffer.allocUnsafeSlow(BLOCK_BYTES), Buffer.allocUnsafeSlow(BLOCK_BYTES)] as const
  #filling = 0
  #filled = 0
  /** The write of the last block. The next call that awaits it throws its failure. */
  #writing: Promise<unknown> = Promise.resolve()
  #unsynced = 0
  #syncing: Promise<unknown> | null = null
  /** Why bytes did not reach the disk. The system reports that only once; a later sync may claim success. */
  #failure: unknown = null

  constructor(path: string, file: FileHandle, keep: Keep) {
    this.#path = path
    this.#file = file
    this.#keep = keep
  }

  /**
   * Copies pieces into blocks. Without the copy, the pieces of a stream would live until they are written and reach the
   * old generation, and collecting them there takes longer than the copy.
   */
  async write(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length; ) {
      const piece = bytes.subarray(from, from + BLOCK_BYTES - this.#filled)
      this.#blocks[this.#filling]!.set(piece, this.#filled)
      this.#filled += piece.length
      from += piece.length
      if (this.#filled === BLOCK_BYTES) await this.#swap()
    }
  }

  /** Starts writing the collected pieces, once the previous block is written. */
  async #swap(): Promise<void> {
    await withRoom(() => this.#writing)
    const block = this.#blocks[this.#filling]!.subarray(0, this.#filled)
    this.#filling = 1 - this.#filling
    this.#filled = 0
    this.#writing = this.#write(block)
    this.#writing.catch(() => {})
  }

  async #write(block: Uint8Array): Promise<void> {
    for (let written = 0; written < block.length; ) {
      written += (await this.#file.write(block, written)).bytesWritten
    }
    this.#unsynced += block.length
    if (this.#unsynced < SYNC_BYTES || this.#syncing) return
    // Sync while more is received, so that little is left for the end.
    this.#unsynced = 0
    const done = (failure: unknown) => {
      this.#syncing = null
      this.#failure ??= failure
    }
    this.#syncing = this.#file.datasync().then(() => done(null), done)
  }

  /** Syncs the bytes to disk before they get their name. */
  async keep(name: string): Promise<void> {
    await this.#swap()
    await withRoom(async () => {
      await this.#writing
      await this.#syncing
      if (this.#failure !== null) throw this.#failure
      await this.#file.sync()
      await this.#file.close()
      await this.#keep(this.#path, name)
    })
  }

  async discard(): Promise<void> {
    await this.#writing.catch(() => {})
    await this.#syncing
    await this.#file.close().catch(() => {})
    await rm(this.#path, { force: true })
  }
}

const FAILING = ['EIO', 'EROFS', 'EMFILE', 'ENFILE']

/** Turns errors of a disk that is full or broken into a 503. */
async function withRoom<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (isFull(code)) throw new StorageFullError('files', error)
    if (!FAILING.includes(code ?? '')) throw error
    throw serviceUnavailable('The server cannot store the file; try again later', RETRY_AFTER_S, error)
  }
}
