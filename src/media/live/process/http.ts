import { ByteQueue } from './byte-queue.ts'
import { CameraError, type CameraSession, MAX_UNIT, type SessionHooks } from './camera-session.ts'
import type { Login } from './digest.ts'
import { contentLengthOf, headerOf, type MessageHead, statusOf, takeHead } from './message-head.ts'
import { isJpeg, MultipartReader } from './multipart.ts'

const MAX_CHUNK_LINE = 1024
const NEWLINE = 10

/** What takes the body of a response. */
interface BodySink {
  push(bytes: Buffer): void
  /** The body is complete. */
  end(): void
}

/** Pictures over HTTP/1.1: a stream of them, or one for each request. */
export class HttpSession implements CameraSession {
  readonly #type: 'mjpeg' | 'jpeg'
  readonly #url: URL
  readonly #login: Login
  readonly #hooks: SessionHooks
  readonly #queue = new ByteQueue()
  #state: 'head' | 'body' | 'chunk_size' | 'chunk' | 'chunk_end' | 'trailer' | 'idle' = 'head'
  /** Bytes that are to come of the body or the chunk. */
  #remaining = 0
  #sink: BodySink | null = null
  #closes = false

  constructor(type: 'mjpeg' | 'jpeg', url: URL, login: Login, hooks: SessionHooks) {
    this.#type = type
    this.#url = url
    this.#login = login
    this.#hooks = hooks
    this.#ask()
  }

  feed(bytes: Uint8Array): void {
    this.#queue.push(bytes)
    while (this.#step());
  }

  tick(): void {
    if (this.#type === 'mjpeg' || this.#state !== 'idle') return
    if (this.#closes) throw again()
    this.#state = 'head'
    this.#ask()
  }

  end(): never {
    // A body without a length ends with the connection.
    if (this.#state === 'body' && this.#remaining === Number.POSITIVE_INFINITY) this.#finish()
    if (this.#state === 'idle' && this.#type === 'jpeg') throw again()
    throw new CameraError('protocol', 'The camera has closed the connection')
  }

  close(): void {}

  #ask(): void {
    const target = this.#url.pathname + this.#url.search
    const authorization = this.#login.authorization('GET', target)
    const lines = [
      `GET ${target} HTTP/1.1`,
      `Host: ${this.#url.host}`,
      'User-Agent: Lookout',
      'Accept: */*',
      ...(authorization === null ? [] : [`Authorization: ${authorization}`]),
    ]
    this.#hooks.send(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`))
  }

  /** @returns whether there may be more to read. */
  #step(): boolean {
    const queue = this.#queue
    switch (this.#state) {
      case 'head': {
        const head = takeHead(queue)
        if (head !== null) this.#begin(head)
        return head !== null
      }
      case 'chunk_size':
        return this.#takeLine((line) => {
          const size = /^[\da-f]{1,12}(?=\s*(?:;|$))/i.exec(line)
          if (size === null) throw new CameraError('protocol', 'The camera sends a chunk without a size')
          this.#remaining = Number.parseInt(size[0], 16)
          this.#state = this.#remaining === 0 ? 'trailer' : 'chunk'
        })
      case 'chunk_end':
        return this.#takeLine(() => {
          this.#state = 'chunk_size'
        })
      case 'trailer':
        return this.#takeLine((line) => line === '' && this.#finish())
      case 'body':
      case 'chunk': {
        if (queue.length === 0 && this.#remaining > 0) return false
        const bytes = queue.take(this.#remaining)
        this.#remaining -= bytes.length
        this.#sink!.push(bytes)
        if (this.#remaining > 0) return false
        if (this.#state === 'chunk') this.#state = 'chunk_end'
        else this.#finish()
        return true
      }
      case 'idle':
        // Nothing was asked.
        queue.take(queue.length)
        return false
    }
  }

  #takeLine(use: (line: string) => void): boolean {
    const end = this.#queue.peek(MAX_CHUNK_LINE).indexOf(NEWLINE)
    if (end >= 0)
      use(
        this.#queue
          .take(end + 1)
          .toString('latin1')
          .trim(),
      )
    else if (this.#queue.length >= MAX_CHUNK_LINE) throw new CameraError('protocol', 'The camera sends endless chunks')
    return end >= 0
  }

  #begin(head: MessageHead): void {
    const status = statusOf(head)
    if (status === null) throw new CameraError('protocol', 'The camera sends what is no HTTP')
    if (status < 200) return
    if (status === 401) {
      this.#login.challenged(head.headers.get('www-authenticate') ?? [])
      throw again()
    }
    this.#login.accepted()
    if (status >= 300 && status < 400) {
      throw new CameraError('refused', 'The camera redirects elsewhere, which Lookout does not follow')
    }
    if (status !== 200) throw new CameraError('refused', `The camera answers with ${status}`)
    const connection = headerOf(head, 'connection') ?? ''
    this.#closes = /^HTTP\/1\.0/i.test(head.start) ? !/keep-alive/i.test(connection) : /close/i.test(connection)
    this.#sink = this.#type === 'jpeg' ? this.#snapshot(head) : this.#stream(head)
    if (/\bchunked\b/i.test(headerOf(head, 'transfer-encoding') ?? '')) this.#state = 'chunk_size'
    else {
      this.#state = 'body'
      const limit = this.#type === 'jpeg' ? MAX_UNIT : Number.MAX_SAFE_INTEGER
      this.#remaining = contentLengthOf(head, limit) ?? Number.POSITIVE_INFINITY
    }
    if (this.#type === 'mjpeg') this.#hooks.onPlaying?.()
  }

  #finish(): void {
    this.#state = 'idle'
    this.#sink!.end()
  }

  #stream(head: MessageHead): BodySink {
    const type = headerOf(head, 'content-type') ?? ''
    if (!/^multipart\//i.test(type)) throw new CameraError('no_video', 'The camera does not send a stream of JPEG')
    const boundary = /boundary\s*=\s*(?:"([^"]*)"|([^\s;]*))/i.exec(type)?.slice(1).join('') ?? ''
    const parts = new MultipartReader(boundary, (unit) => this.#hooks.onUnit(unit))
    return {
      push: (bytes) => parts.push(bytes),
      end: () => {
        throw new CameraError('protocol', 'The camera has ended the stream')
      },
    }
  }

  #snapshot(head: MessageHead): BodySink {
    const queue = new ByteQueue()
    return {
      push: (bytes) => {
        queue.push(bytes)
        if (queue.length > MAX_UNIT) throw new CameraError('protocol', 'A picture of the camera exceeds 4 MiB')
      },
      end: () => {
        const data = Buffer.from(queue.take(queue.length))
        if (!isJpeg(data)) throw new CameraError('no_video', 'The camera does not answer with a JPEG')
        const at = new Date(headerOf(head, 'date') ?? '')
        const cameraTime = Number.isNaN(at.getTime()) ? null : at
        this.#hooks.onPlaying?.()
        this.#hooks.onUnit({ codec: 'jpeg', data, isKey: true, mediaTime: null, cameraTime, afterLoss: false })
      },
    }
  }
}

function again(): CameraError {
  return new CameraError('again', 'The camera wants a new connection')
}
