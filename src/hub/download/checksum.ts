import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'

const READ_BYTES = 2 ** 20

/**
 * The name of a file's bytes on the hub, read piece by piece: SHA-256 of large files, git's name of small ones.
 * @param like a name of the kind that is wanted: 64 or 40 hex digits.
 */
export async function blobName(path: string, size: number, like: string, signal: AbortSignal): Promise<string> {
  const hash = like.length === 64 ? createHash('sha256') : createHash('sha1').update(`blob ${size}\0`)
  for await (const piece of createReadStream(path, { highWaterMark: READ_BYTES, signal })) hash.update(piece)
  return hash.digest('hex')
}
