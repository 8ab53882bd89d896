import { constants, type Dirent } from 'node:fs'
import { type FileHandle, open, opendir, readlink } from 'node:fs/promises'
import { HEAD_BYTES } from '../../media/media-type.ts'
import type { MediaFile } from '../asking/media.ts'

/** On macOS, no part of the path may be a link. Node has no name for it. */
const O_NOFOLLOW_ANY = 0x2000_0000
/** `O_NONBLOCK`: opening a pipe that has replaced the file does not wait for its writer. */
const FLAGS =
  constants.O_RDONLY | constants.O_NONBLOCK | (process.platform === 'darwin' ? O_NOFOLLOW_ANY : constants.O_NOFOLLOW)

/**
 * A file that is opened once, checked, and read as it was then: a path may lead elsewhere a moment later. Never more is read
 * than it had when it was opened.
 */
export class HeldFile implements MediaFile, AsyncDisposable {
  /** As errors name it. */
  readonly name: string
  /** Where the file is that was opened, wherever its path leads now. */
  readonly path: string
  readonly isFile: boolean
  readonly byteLength: number
  readonly modified: Date
  readonly #handle: FileHandle

  private constructor(
    handle: FileHandle,
    about: Pick<HeldFile, 'name' | 'path' | 'isFile' | 'byteLength' | 'modified'>,
  ) {
    this.#handle = handle
    this.name = about.name
    this.path = about.path
    this.isFile = about.isFile
    this.byteLength = about.byteLength
    this.modified = about.modified
  }

  /**
   * @param path without links.
   * @throws the error of the system; ELOOP where the path has a link by now.
   */
  static async open(path: string, name: string): Promise<HeldFile> {
    const handle = await open(path, FLAGS)
    try {
      const about = await handle.stat()
      const real = process.platform === 'darwin' ? path : await readlink(held(handle))
      const modified = about.mtime
      return new HeldFile(handle, { name, path: real, isFile: about.isFile(), byteLength: about.size, modified })
    } catch (error) {
      await handle.close()
      throw error
    }
  }

  async size(): Promise<number> {
    return this.byteLength
  }

  head(): Promise<Buffer> {
    return this.start(HEAD_BYTES)
  }

  /** The first bytes, as many as there are. */
  start(length: number): Promise<Buffer> {
    return this.#read(Math.min(this.byteLength, length))
  }

  whole(): Promise<Buffer> {
    return this.#read(this.byteLength)
  }

  async blob(type: string): Promise<Blob> {
    return new Blob([new Uint8Array(await this.whole())], { type })
  }

  /** Fewer bytes where the file has become shorter. */
  async #read(length: number): Promise<Buffer> {
    const bytes = Buffer.alloc(length)
    let filled = 0
    while (filled < length) {
      const { bytesRead } = await this.#handle.read(bytes, filled, length - filled, filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    return bytes.subarray(0, filled)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#handle.close()
  }
}

/**
 * The entries of a folder, if its path without links is allowed once it is open. macOS cannot list an open folder: there it
 * is checked just before.
 * @throws the error of the system.
 */
export async function* entriesOf(path: string, isAllowed: (real: string) => boolean): AsyncGenerator<Dirent> {
  await using handle = await open(path, FLAGS | constants.O_DIRECTORY)
  const place = process.platform === 'darwin' ? path : held(handle)
  if (isAllowed(process.platform === 'darwin' ? path : await readlink(place))) yield* await opendir(place)
}

/** The path of an open file. */
function held({ fd }: FileHandle): string {
  return `/proc/self/fd/${fd}`
}
