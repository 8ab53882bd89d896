import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

/** Cards have some kB, and the largest known tokenizer.json has 33 MB. */
const MAX_BYTES = 2 ** 26
/** `O_NONBLOCK`: opening a pipe does not wait for its writer. */
const FLAGS = constants.O_RDONLY | constants.O_NONBLOCK

/**
 * Opens a file from an untrusted source, which may have been replaced by something else.
 * @throws the error of the system; Error for a pipe, a device or a folder, which may never end or answer.
 */
export async function openPlain(path: string): Promise<FileHandle> {
  const file = await open(path, FLAGS)
  if ((await file.stat()).isFile()) return file
  await file.close()
  throw new Error('it is not a regular file')
}

/** Reads all of a small file. @throws as `openPlain` does, and for a file that is too large. */
export async function readPlain(path: string): Promise<string> {
  await using file = await openPlain(path)
  const { size } = await file.stat()
  if (size > MAX_BYTES) throw new Error(`it has ${size} bytes; at most ${MAX_BYTES} are read`)
  return await file.readFile('utf8')
}
