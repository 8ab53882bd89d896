import { CameraError, CLOSED } from '../camera-session.ts'
import { ByteQueue } from './byte-queue.ts'
import type { Login } from './digest.ts'
import { contentLengthOf, headerOf, type MessageHead, statusOf, takeHead } from './message-head.ts'

const MAX_CHUNK_LINE = 1024
const NEWLINE = 10
/** Redirects of one request. */
const MOST_REDIRECTS = 3
const MOST_COOKIES = 16
/** A cookie that can be sent back unchanged. */
const COOKIE = /^[\x21-\x3a\x3c-\x7e]+$/

/** Receives the body of a response. */
export interface BodySink {
  /** Maximum length of the body, in bytes. */
  readonly limit: number
  push(bytes: Buffer): void
  /** The body is complete. */
  end(): void
}

/** A request, and what handles the response. */
interface HttpRequest {
  /** Path and query. */
  readonly target: string
  /** @throws CameraError for a response that cannot be used */
  readonly onHead: (status: number, head: MessageHead) => BodySink
  /** The server has redirected the request to another address of its own. */
  readonly onMoved?: ((url: URL) => void) | undefined
}

/** Sends requests over HTTP/1.1, each after the response to the last one. */
export class HttpExchange {
  readonly #url: URL
  readonly #login: Login
  readonly #send: (bytes: Uint8Array) => void
  readonly #queue = new ByteQueue()
  #state: 'head' | 'body' | 'chunk_size' | 'chunk' | 'chunk_end' | 'trailer' | 'idle' = 'idle'
  #request: HttpRequest | null = null
  #redirects = 0
  /** Cookies that redirects have set, by name. Servers such as MediaMTX check them. */
  readonly #cookies = new Map<string, string>()
  /** Remaining bytes of the body or the chunk. */
  #remaining = 0
  #sink: BodySink | null = null
  /** The connection is over, or will be. */
  #closes = false
  /** It has answered before. */
  #hasAnswered = false

  constructor(url: URL, login: Login, send: (bytes: Uint8Array) => void) {
    this.#url = url
    this.#login = login
    this.#send = send
  }

  /** Whether no request is pending. */
  get isIdle(): boolean {
    return this.#state === 'idle'
  }

  /** @throws CameraError `again` if it needs a new connection */
  ask(request: HttpRequest): void {
    this.#request = request
    this.#redirects = 0
    this.#ask(request)
  }

  #ask({ target }: HttpRequest): void {
    this.#state = 'head'
    if (this.#closes) throw again()
    const authorization = this.#login.authorization('GET', target)
    const lines = [
      `GET ${target} HTTP/1.1`,
      `Host: ${this.#url.host}`,
      'User-Agent: Lookout',
      'Accept: */*',
      ...(authorization === null ? [] : [`Authorization: ${authorization}`]),
      ...(this.#cookies.size === 0 ? [] : [`Cookie: ${[...this.#cookies.values()].join('; ')}`]),
    ]
    this.#send(Buffer.from(`${lines.join('\r\n')}\r\n\r\n`))
  }

  /** A new connection is open: sends the unanswered request again. */
  reopen(): void {
    this.#queue.take(this.#queue.length)
    this.#closes = false
    this.#hasAnswered = false
    this.#ask(this.#request!)
  }

  feed(bytes: Uint8Array): void {
    this.#queue.push(bytes)
    while (this.#step());
  }

  /** The connection has ended. @throws CameraError if that is not the end of a response */
  end(): void {
    this.#closes = true
    // A body without a length ends with the connection.
    if (this.#state === 'body' && this.#remaining === Number.POSITIVE_INFINITY) this.#finish()
    // It was closed while the request was on its way.
    if (this.#state === 'head' && this.#hasAnswered && this.#queue.length === 0) throw again()
    if (this.#state !== 'idle') throw new CameraError('protocol', CLOSED)
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
        // No request is pending.
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
    if (status === null) throw new CameraError('protocol', 'The camera does not speak HTTP')
    if (status < 200) return
    if (status === 401) {
      this.#login.challenged(head.headers.get('www-authenticate') ?? [])
      throw again()
    }
    this.#login.accepted()
    if (status >= 300 && status < 400) this.#follow(head)
    const connection = headerOf(head, 'connection') ?? ''
    this.#closes = /^HTTP\/1\.0/i.test(head.start) ? !/keep-alive/i.test(connection) : /close/i.test(connection)
    this.#sink = this.#request!.onHead(status, head)
    if (/\bchunked\b/i.test(headerOf(head, 'transfer-encoding') ?? '')) this.#state = 'chunk_size'
    else {
      this.#state = 'body'
      this.#remaining = contentLengthOf(head, this.#sink.limit) ?? Number.POSITIVE_INFINITY
    }
  }

  /** Follows a redirect over another connection. @throws CameraError for another server: only this one was allowed. */
  #follow(head: MessageHead): never {
    const { origin } = this.#url
    const url = URL.parse(headerOf(head, 'location') ?? 'about:blank', `${origin}${this.#request!.target}`)
    if (url?.origin !== origin) {
      throw new CameraError('refused', 'The camera redirects elsewhere, which Lookout does not follow')
    }
    if (++this.#redirects > MOST_REDIRECTS) {
      throw new CameraError('refused', `The camera redirects more than ${MOST_REDIRECTS} times`)
    }
    for (const one of head.headers.get('set-cookie') ?? []) this.#keep(one.split(';', 1)[0]!.trim())
    this.#request!.onMoved?.(url)
    this.#request = { ...this.#request!, target: url.pathname + url.search }
    throw again()
  }

  /** Keeps a cookie in place of one with its name. */
  #keep(cookie: string): void {
    const name = cookie.split('=', 1)[0]!
    if (COOKIE.test(cookie) && (this.#cookies.has(name) || this.#cookies.size < MOST_COOKIES)) {
      this.#cookies.set(name, cookie)
    }
  }

  #finish(): void {
    this.#state = 'idle'
    this.#hasAnswered = true
    this.#sink!.end()
  }
}

/**
 * Collects a whole body.
 * @param limit in bytes
 * @param onBody gets it in memory that may change after the call
 */
export function wholeBody(limit: number, what: string, onBody: (body: Buffer) => void): BodySink {
  const queue = new ByteQueue()
  return {
    limit,
    push: (bytes) => {
      queue.push(bytes)
      if (queue.length > limit)
        throw new CameraError('protocol', `${what} of the camera exceeds ${limit / 2 ** 20} MiB`)
    },
    end: () => onBody(queue.take(queue.length)),
  }
}

function again(): CameraError {
  return new CameraError('again', 'The camera wants a new connection')
}
