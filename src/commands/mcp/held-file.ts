import { constants, type Dirent } from 'node:fs'
import { type FileHandle, open, opendir, readlink } from 'node:fs/promises'
import { HEAD_BYTES } from '../../media/media-type.ts'

/** On macOS, no part of the path may be a link. Node has no name for it. */
const O_NOFOLLOW_ANY = 0x2000_0000
/** `O_NONBLOCK`: opening a pipe that has replaced the file does not wait for its writer. */
const FLAGS =
  constants.O_RDONLY | constants.O_NONBLOCK | (process.platform === 'darwin' ? O_NOFOLLOW_ANY : constants.O_NOFOLLOW)

/** A file that is open. */
export type HeldFile = Awaited<ReturnType<typeof openHeld>>

/**
 * Opens a file once, so that the file that is checked is the one that is read: its path may lead elsewhere a moment
 * later. No more is read than the file had when it was opened.
 * @param path without links.
 * @param name of the file in errors.
 * @throws the error of the system; ELOOP if the path now has a link.
 */
export async function openHeld(path: string, name: string) {
  await using opening = new AsyncDisposableStack()
  const handle = opening.use(await open(path, FLAGS))
  const about = await handle.stat()
  const { size: byteLength, mtime: modified } = about
  const real = process.platform === 'darwin' ? path : await readlink(held(handle))
  /** Returns fewer bytes if the file has become shorter. */
  const read = async (length: number): Promise<Buffer> => {
    const bytes = Buffer.alloc(length)
    let filled = 0
    while (filled < length) {
      const { bytesRead } = await handle.read(bytes, filled, length - filled, filled)
      if (bytesRead === 0) break
      filled += bytesRead
    }
    return bytes.subarray(0, filled)
  }
  /** The first bytes, as many as there are. */
  const start = (length: number) => read(Math.min(byteLength, length))
  const whole = () => read(byteLength)
  const file = {
    name,
    /** Path of the opened file, even if the given path leads elsewhere now. */
    path: real,
    isFile: about.isFile(),
    byteLength,
    modified,
    size: async () => byteLength,
    head: () => start(HEAD_BYTES),
    start,
    whole,
    blob: async (type: string) => new Blob([new Uint8Array(await whole())], { type }),
    [Symbol.asyncDispose]: () => handle.close(),
  }
  opening.move()
  return file
}

/**
 * The entries of a folder, if its real path is allowed once it is open. macOS cannot list an open folder: there, it is
 * checked just before.
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
