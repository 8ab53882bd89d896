import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'
import { invalidRequest, serviceUnavailable } from '../../lib/errors/errors.ts'
import { adviceFor, headChecked, kindOfType, MEDIA_TYPES, type MediaKind, mediaType, typeName } from '../media-type.ts'
import type { SpooledFile } from './spool.ts'

const RETRY_AFTER_S = 10
const SUPPORTED = Object.values(MEDIA_TYPES).flat()

/** Media from an address, unchanged. It stays available until it is disposed of. */
export type FetchedMedia = ReturnType<typeof fetchedMedia>

/** @throws ApiError 503 when the file was already removed to make room for others. */
export function fetchedMedia(file: SpooledFile) {
  const use = file.use()
  if (use === null) throw serviceUnavailable('The server has no room for more media at the moment', RETRY_AFTER_S)
  return {
    type: mediaType(file.head)!,
    byteLength: file.byteLength,
    read: (): Readable => createReadStream(file.path),
    [Symbol.dispose]() {
      use[Symbol.dispose]()
      file[Symbol.dispose]()
    },
  }
}

/**
 * Passes the pieces through. Checks the type in the first bytes, so that no more of an unsupported file is read, and
 * the size limit of that type.
 * @throws ApiError 400
 */
export async function* ofAnyKind(
  pieces: AsyncIterable<Uint8Array>,
  mostBytes: Readonly<Record<MediaKind, number>>,
  param: string,
): AsyncGenerator<Uint8Array, void, void> {
  let size = 0
  let limit = Number.POSITIVE_INFINITY
  const checked = headChecked(pieces, (head) => {
    limit = mostBytes[supportedKind(head, param)]
  })
  for await (const piece of checked) {
    size += piece.byteLength
    if (size > limit) throw invalidRequest(`The media is larger than ${Math.floor(limit / 2 ** 20)} MiB`, param)
    yield piece
  }
}

function supportedKind(head: Uint8Array, param: string): MediaKind {
  const type = mediaType(head)
  if (type !== null) return kindOfType(type)!
  throw invalidRequest(
    `Unsupported media: the data is ${typeName(head)}; supported types are ${SUPPORTED.join(', ')}${adviceFor(typeName(head))}`,
    param,
  )
}
