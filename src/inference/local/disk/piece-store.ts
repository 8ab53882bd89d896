import { randomBytes } from 'node:crypto'
import { type FileHandle, open, readdir, rename, rm, stat, statfs, utimes } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { makeFolder } from '../../../lib/make-folder.ts'
import { openPrefixFolder, organisationFolder } from '../prefix-folders.ts'
import { hashState, headBytes, type PieceHead, PREAMBLE_BYTES, readHead, writeHead } from './piece-file.ts'

export interface PieceStoreOptions {
  /** The directory for all models and organisations. */
  readonly directory: string
  /** Maximum bytes of all files in the directory. */
  readonly limitBytes: number
  /** Names the model, regardless of its files. */
  readonly model: string
  /** Identifies what determines the content of a state; see `fingerprint`. */
  readonly fingerprint: string
}

/** A file of the directory, of any model. */
interface StoredFile {
  readonly path: string
  readonly folder: string
  readonly bytes: number
  /** When it was last used, in ms since 1970. */
  readonly usedAt: number
}

/** This model's files in the directory. */
export interface StoreUsage {
  readonly bytes: number
  readonly files: number
}

export interface StoredHead extends PieceHead {
  /** Offset of the state in the file. */
  readonly headBytes: number
}

const ENDING = '.prefix'
const DRAFT_ENDING = '.draft'
/** An older draft was left by a process that has ended. */
const DRAFT_LIFE_MS = 10 * 60_000
const CLOCK_TICK_MS = 20
/** When the limit is reached, files are removed down to this fraction of it. */
const KEPT_SHARE = 15 / 16
/** Fraction of the disk that must stay free for the rest of the server. */
const FREE_SHARE = 1 / 20
/**
 * The files of saved pieces. Each organisation has a folder with a folder for each model. A file gets its name once all of it
 * is on disk, and the name identifies its content, so any number of processes can share one directory. It owns the counted
 * sizes.
 */
export class PieceStore {
  readonly #options: PieceStoreOptions
  readonly #ownFolder: string
  #secret: Buffer | null = null
  /** The files of each folder, with the folder's version when they were counted. */
  #counted: ReadonlyMap<string, { readonly version: string; readonly files: readonly StoredFile[] }> = new Map()

  constructor(options: PieceStoreOptions) {
    this.#options = options
    this.#ownFolder = `${options.model}-${options.fingerprint}`
  }

  get fingerprint(): string {
    return this.#options.fingerprint
  }

  /** The usage as last counted; every write counts again. */
  get usage(): StoreUsage {
    const own = [...this.#counted].filter(([path]) => basename(path) === this.#ownFolder)
    const files = own.flatMap(([, counted]) => counted.files)
    return { bytes: sizeOf(files), files: files.length }
  }

  /** Creates the directory and removes unusable files. @throws Error if it is not writable. */
  async open(): Promise<void> {
    this.#secret = await openPrefixFolder(this.#options.directory)
    await this.#count()
    const now = Date.now()
    const useless = this.#files.filter(
      ({ path, usedAt }) => path.endsWith(DRAFT_ENDING) && now - usedAt > DRAFT_LIFE_MS,
    )
    await Promise.all(useless.map(({ path }) => rm(path, { force: true })))
    await this.#removeOutdated()
    await this.#makeRoom(0)
  }

  /**
   * Names of an organisation's pieces.
   * @param known the version of the previous list.
   * @returns null if nothing has changed since.
   */
  async list(organisation: string, known: string | null): Promise<{ version: string; names: string[] } | null> {
    const folder = this.#folderOf(organisation)
    const version = await versionOf(folder)
    if (version === known) return null
    const files = await readdir(folder).catch(() => [])
    return {
      version,
      names: files.filter((name) => name.endsWith(ENDING)).map((name) => name.slice(0, -ENDING.length)),
    }
  }

  /** The head of a file; null if it is missing or unusable. An unusable file is removed. */
  async readHead(organisation: string, name: string): Promise<StoredHead | null> {
    const head = await using(this.#path(organisation, name), async (file) => {
      const preamble = await readExactly(file, Buffer.alloc(PREAMBLE_BYTES))
      const length = preamble === null ? null : headBytes(preamble)
      if (length === null) return null
      const start = await readExactly(file, Buffer.alloc(PREAMBLE_BYTES + length))
      const found = start === null ? null : readHead(start)
      if (found?.fingerprint !== this.#options.fingerprint) return null
      const isWhole = (await file.stat()).size === PREAMBLE_BYTES + length + found.stateBytes
      return isWhole ? { ...found, headBytes: PREAMBLE_BYTES + length } : null
    })
    if (head === null) await this.remove(organisation, name)
    return head
  }

  /** The state in a file; null if it is missing or damaged. A damaged file is removed. */
  async readState(
    organisation: string,
    name: string,
    about: Pick<StoredHead, 'headBytes' | 'stateBytes' | 'stateHash'>,
  ): Promise<Uint8Array | null> {
    const state = await using(this.#path(organisation, name), async (file) => {
      const start = Buffer.alloc(about.headBytes)
      // A slice of Node's buffer pool would keep the whole pool alive.
      const bytes = Buffer.allocUnsafeSlow(about.stateBytes)
      const { bytesRead } = await file.readv([start, bytes], 0)
      const isWhole = bytesRead === start.length + bytes.length && readHead(start)?.stateHash === about.stateHash
      return isWhole && (await hashState(bytes)) === about.stateHash ? bytes : null
    })
    if (state === null) await this.remove(organisation, name)
    return state
  }

  /**
   * Writes a piece, unless it exists.
   * @returns offset of the state in the file; null if there is no room for it.
   * @throws Error of the file system.
   */
  async write(organisation: string, name: string, head: PieceHead, state: Uint8Array): Promise<number | null> {
    const start = writeHead(head)
    const bytes = start.length + state.length
    const path = this.#path(organisation, name)
    const found = await stat(path).catch(() => null)
    if (found !== null) return (await this.readHead(organisation, name))?.headBytes ?? null
    if (!(await this.#makeRoom(bytes))) return null
    const draft = `${path}.${randomBytes(6).toString('hex')}${DRAFT_ENDING}`
    await makeFolder(this.#folderOf(organisation))
    try {
      const file = await open(draft, 'wx', 0o600)
      try {
        await writeAll(file, start, 0)
        await writeAll(file, state, start.length)
        await file.datasync()
      } finally {
        await file.close()
      }
      await rename(draft, path)
      // Another process may have written files meanwhile.
      await this.#makeRoom(0)
    } catch (error) {
      await rm(draft, { force: true }).catch(() => {})
      throw error
    }
    return start.length
  }

  /** Marks pieces as used. @param names in the order of removal. */
  async touch(organisation: string, names: readonly string[]): Promise<void> {
    const now = Date.now()
    await Promise.all(
      names.map((name, index) => {
        const time = new Date(now + index)
        return utimes(this.#path(organisation, name), time, time).catch(() => {})
      }),
    )
  }

  async remove(organisation: string, name: string): Promise<void> {
    await rm(this.#path(organisation, name), { force: true, recursive: true }).catch(() => {})
  }

  #folderOf(organisation: string): string {
    if (this.#secret === null) throw new Error('The store is not open.')
    return join(this.#options.directory, organisationFolder(this.#secret, organisation), this.#ownFolder)
  }

  #path(organisation: string, name: string): string {
    return join(this.#folderOf(organisation), name + ENDING)
  }

  /** Removes the pieces of older versions of the model's files. */
  async #removeOutdated(): Promise<void> {
    for (const folder of await subfolders(this.#options.directory)) {
      for (const path of await subfolders(folder)) {
        const name = path.slice(folder.length + 1)
        const isOutdated = name.startsWith(`${this.#options.model}-`) && name !== this.#ownFolder
        if (isOutdated) await rm(path, { recursive: true, force: true }).catch(() => {})
      }
    }
  }

  /**
   * Removes files until `bytes` fit: the least recently used ones of the organisation with most bytes.
   * @returns false if they do not fit.
   */
  async #makeRoom(bytes: number): Promise<boolean> {
    const { directory, limitBytes } = this.#options
    if (bytes > limitBytes) return false
    if ((await this.#count()) + bytes > limitBytes) {
      // The order of removal needs current times of use.
      this.#counted = new Map()
      await this.#count()
      await this.#evict(KEPT_SHARE * limitBytes - bytes)
    }
    const disk = await statfs(directory)
    return disk.bavail * disk.bsize - bytes >= FREE_SHARE * disk.blocks * disk.bsize
  }

  async #evict(keptBytes: number): Promise<void> {
    const files = this.#files
    const owners = Array.from(Map.groupBy(files, ({ folder }) => folder).values(), (own) => ({
      bytes: sizeOf(own),
      // Most recent first, so that the next to remove is at the end.
      files: own.sort((a, b) => b.usedAt - a.usedAt),
    }))
    const removed: StoredFile[] = []
    let left = sizeOf(files)
    while (left > Math.max(0, keptBytes)) {
      const owner = owners.reduce((a, b) => (b.bytes > a.bytes ? b : a))
      const file = owner.files.pop()!
      owner.bytes -= file.bytes
      left -= file.bytes
      removed.push(file)
    }
    await Promise.all(removed.map(({ path }) => rm(path, { force: true }).catch(() => {})))
  }

  /**
   * Counts all files in the directory, which other processes use too. Reads only folders in which files were added or removed
   * since; other folders keep the times of use from their last read.
   * @returns the total bytes.
   */
  async #count(): Promise<number> {
    const known = this.#counted
    const folders = await subfolders(this.#options.directory)
    const models = await Promise.all(
      folders.map(async (folder) => (await subfolders(folder)).map((path) => ({ path, folder }))),
    )
    const counted = models.flat().map(async ({ path, folder }) => {
      const version = await versionOf(path)
      const before = known.get(path)
      const files = before?.version === version ? before.files : await filesOf(path, folder)
      return [path, { version, files }] as const
    })
    this.#counted = new Map(await Promise.all(counted))
    return sizeOf(this.#files)
  }

  get #files(): readonly StoredFile[] {
    return [...this.#counted.values()].flatMap(({ files }) => files)
  }
}

function sizeOf(files: readonly StoredFile[]): number {
  return files.reduce((sum, { bytes }) => sum + bytes, 0)
}

/** The version of a folder: it changes when files are added or removed. */
async function versionOf(folder: string): Promise<string> {
  const found = await stat(folder, { bigint: true }).catch(() => null)
  if (found === null) return 'none'
  // Another change in the same tick of the system's clock would be invisible.
  const isSettled = Date.now() - Number(found.mtimeNs / 1_000_000n) > CLOCK_TICK_MS
  return isSettled ? `${found.ino} ${found.mtimeNs}` : randomBytes(8).toString('hex')
}

async function subfolders(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => [])
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => join(directory, name))
}

async function filesOf(directory: string, folder: string): Promise<StoredFile[]> {
  const names = await readdir(directory).catch(() => [])
  const files = await Promise.all(
    names.map(async (name): Promise<StoredFile | null> => {
      const path = join(directory, name)
      const found = await stat(path).catch(() => null)
      return found?.isFile() ? { path, folder, bytes: found.size, usedAt: found.mtimeMs } : null
    }),
  )
  return files.filter((file) => file !== null)
}

/** @returns null if the file cannot be opened or read. */
async function using<Result>(path: string, read: (file: FileHandle) => Promise<Result | null>): Promise<Result | null> {
  const file = await open(path, 'r').catch(() => null)
  if (file === null) return null
  try {
    return await read(file)
  } catch {
    return null
  } finally {
    await file.close().catch(() => {})
  }
}

/** Fills the buffer from the start of a file; null if the file is too short. */
async function readExactly(file: FileHandle, buffer: Buffer): Promise<Buffer | null> {
  const { bytesRead } = await file.read(buffer, 0, buffer.length, 0)
  return bytesRead === buffer.length ? buffer : null
}

async function writeAll(file: FileHandle, bytes: Uint8Array, at: number): Promise<void> {
  for (let written = 0; written < bytes.length; ) {
    written += (await file.write(bytes, written, bytes.length - written, at + written)).bytesWritten
  }
}
