import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'

const READ_BYTES = 2 ** 20

/**
 * The hash by which the hub names a file's bytes: SHA-256 for large files, git's for small ones. The file is read in
 * pieces.
 * @param like a hash of the wanted kind: 64 or 40 hex digits.
 */
export async function blobName(path: string, size: number, like: string, signal: AbortSignal): Promise<string> {
  const hash = like.length === 64 ? createHash('sha256') : createHash('sha1').update(`blob ${size}\0`)
  for await (const piece of createReadStream(path, { highWaterMark: READ_BYTES, signal })) hash.update(piece)
  return hash.digest('hex')
}
