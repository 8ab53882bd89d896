import type { ByteSource } from '../../models/read/gguf.ts'
import { HubError } from '../hub-error.ts'
import { type Attempts, BusyError, retried } from './attempts.ts'
import { ConnectionError, connectionError, type HttpAnswer, type HttpClient } from './http-client.ts'
import { statusError } from './status-error.ts'

/** The file on the server has changed: the parts that were fetched are useless. */
export class ChangedError extends Error {}

/** The most signed addresses that a server may refuse in a row. */
const MAX_EXPIRIES = 3
const MAX_RENAMINGS = 3

export interface RemoteFileOptions {
  readonly url: URL
  /** For errors: `user/repo`, or the address. */
  readonly origin: string
  /** Path in the repository, or the last part of the address. */
  readonly name: string
  /** Null when only the server knows. */
  readonly size: number | null
  /**
   * Whether the bytes are checked by a hash in the end. Then a server behind the hub may send another ETag for the same
   * file.
   */
  readonly isHashed: boolean
}

/** A file behind an address that may redirect to a signed one, which expires. */
export class RemoteFile {
  readonly name: string
  readonly origin: string
  readonly #options: RemoteFileOptions
  readonly #http: HttpClient
  #size: number | null
  /** Where the redirects ended, while its signature is accepted. */
  #location: URL | null = null
  /**
   * Identifies this version of the file, for `If-Range`: a strong ETag or a date; null if the server sends neither, or
   * was not asked yet. It is set to resume the download of an earlier process.
   */
  validator: string | null = null
  /** False once the server has ignored a range: a second connection would fetch everything again. */
  takesRanges = true

  constructor(http: HttpClient, options: RemoteFileOptions) {
    this.#http = http
    this.#options = options
    this.#size = options.size
    this.name = options.name
    this.origin = options.origin
  }

  /** Drops the signed address: the next request asks for a new one. */
  forget(): void {
    this.#location = null
  }

  /** Bytes of the whole file. */
  async size(attempts: Attempts): Promise<number> {
    if (this.#size === null) {
      await retried(attempts.tuning.askAttempts, attempts, async () => {
        const answer = await this.#request(0, 1, attempts.signal)
        answer.body.on('error', () => {}).destroy()
      })
    }
    if (this.#size === null)
      throw new HubError(
        `${this.origin} does not say how large ${this.name} is; download it by hand and use lookout add`,
      )
    return this.#size
  }

  /** The file as bytes that are fetched when they are read. */
  async bytes(attempts: Attempts): Promise<ByteSource> {
    const size = await this.size(attempts)
    const read = async (position: number, length: number) => {
      const pieces: Buffer[] = []
      for await (const piece of this.stream(position, Math.min(size, position + length), attempts.signal))
        pieces.push(piece)
      return Buffer.concat(pieces)
    }
    return {
      size,
      read: (position, length) =>
        position >= size || length === 0
          ? Promise.resolve(Buffer.alloc(0))
          : retried(attempts.tuning.askAttempts, attempts, () => read(position, length)),
    }
  }

  /**
   * Yields exactly the bytes from one position up to another one.
   * @throws ConnectionError when they end early or stall; ChangedError; HubError when access is denied.
   */
  async *stream(from: number, to: number, signal: AbortSignal): AsyncGenerator<Buffer, void, void> {
    const answer = await this.#request(from, to, signal)
    // A server that ignores ranges sends everything.
    let skip = answer.status === 200 ? from : 0
    let missing = to - from
    try {
      for await (const chunk of answer.body as AsyncIterable<Buffer>) {
        const piece = chunk.subarray(Math.min(skip, chunk.length))
        skip -= chunk.length - piece.length
        if (piece.length === 0) continue
        missing -= piece.length
        yield missing < 0 ? piece.subarray(0, missing) : piece
        // Reading an answer to its end frees its connection for the next part.
        if (missing < 0 || (missing === 0 && answer.status === 200)) return
      }
    } catch (error) {
      signal.throwIfAborted()
      throw connectionError(answer.url.host, error)
    } finally {
      answer.body.on('error', () => {}).destroy()
    }
    if (missing > 0) throw new ConnectionError(`${answer.url.host}: the connection ended early`)
  }

  /** @returns an answer with status 206 and the requested range, or one with 200 and the whole file. */
  async #request(from: number, to: number, signal: AbortSignal): Promise<HttpAnswer> {
    for (let expired = 0, renamed = 0; ; ) {
      const known = this.#location
      const answer = await this.#http.get(known ?? this.#options.url, {
        origin: this.#options.url,
        signal,
        headers: {
          range: `bytes=${from}-${to - 1}`,
          ...(this.validator === null ? {} : { 'if-range': this.validator }),
        },
      })
      if (answer.status === 206 || answer.status === 200) {
        if (this.#take(answer, from, to)) return answer
        answer.body.on('error', () => {}).destroy()
        if (++renamed === MAX_RENAMINGS)
          throw new ConnectionError(`${answer.url.host} sends a different ETag for the file with each response`)
        continue
      }
      await answer.body.dump({ limit: 64 * 1024 }).catch(() => {})
      if (answer.status === 429 || answer.status >= 500) throw new BusyError(answer, this.#options.url, this.#http)
      if (answer.status === 416 && this.#size === null) throw new HubError(`${this.name} of ${this.origin} is empty`)
      if (answer.status === 416) throw new ChangedError(`${this.name} is shorter than before`)
      const isSigned = answer.url.href !== this.#options.url.href
      if (isSigned && [401, 403, 404, 410].includes(answer.status) && expired++ < MAX_EXPIRIES) {
        if (this.#location?.href === known?.href) this.#location = null
        continue
      }
      throw statusError(answer, { what: this.name, origin: this.origin, asked: this.#options.url, http: this.#http })
    }
  }

  /** Stores what an answer says about the file. @returns false when the request must be repeated. */
  #take(answer: HttpAnswer, from: number, to: number): boolean {
    const etag = answer.header('etag')
    const validator = etag !== null && !etag.startsWith('W/') ? etag : answer.header('last-modified')
    const range = /^bytes (\d+)-(\d+)\/(\d+|\*)$/.exec(answer.header('content-range') ?? '')
    if (answer.status === 206 && (range === null || Number(range[1]) !== from || Number(range[2]) !== to - 1)) {
      // The last part of a file whose size is not known yet may be shorter.
      if (range === null || Number(range[1]) !== from || this.#size !== null) {
        throw new ConnectionError(`${answer.url.host} sent a different range than requested`)
      }
    }
    const total = answer.status === 206 ? range![3]! : answer.header('content-length')
    const isChanged = this.validator !== null && answer.status === 200 && validator !== this.validator
    if (isChanged && !this.#options.isHashed) throw new ChangedError(`${this.name} changed on the server`)
    if (total !== null && total !== '*') {
      if (this.#size !== null && Number(total) !== this.#size) {
        if (!this.#options.isHashed) {
          throw new HubError(`${this.name} changed on the server during the download: run the same command again`)
        }
        throw new HubError(
          `${this.name} of ${this.origin} has ${total} bytes at ${answer.url.host} instead of ${this.#size}: try again later, or without a mirror`,
        )
      }
      this.#size = Number(total)
    }
    this.validator = validator
    this.#location = answer.url
    if (isChanged) return false
    if (answer.status === 200) this.takesRanges = false
    return true
  }
}
