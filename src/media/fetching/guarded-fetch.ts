import type { Readable } from 'node:stream'
import type { Agent } from 'undici'
import { ApiError, invalidRequest, serviceUnavailable } from '../../lib/errors.ts'
import { failureReason, isOwnFailure } from '../../lib/fetch-failure.ts'
import {
  ForbiddenAddress,
  guardedLookup,
  type HostResolver,
  isPublic,
  literalAddress,
} from '../../lib/public-address.ts'
import { userAgent } from '../../lib/version.ts'
import { decoderOf, InvalidEncoding } from './content-encoding.ts'

export { type HostResolver, isPublic } from '../../lib/public-address.ts'

export interface FetchPolicy {
  /** The allow-list: hosts (`host` or `host:port`, lower case) that may be private and use any port. */
  readonly allowedHosts: ReadonlySet<string>
  /** Time limit for the whole fetch, redirects included. */
  readonly timeoutMs: number
  /** Resolves all addresses of a host; the system's resolver by default. */
  readonly resolve?: HostResolver
}

export interface Fetch {
  /** Names the input in errors. */
  readonly param: string
  readonly signal: AbortSignal
  readonly maxBytes: number
  /** Sent with every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
}

const RETRY_AFTER_S = 5
const MAX_REDIRECTS = 3
/**
 * Sent with every request, after redirects too. Media are compressed already; some hosts compress them again nevertheless.
 */
const OWN_HEADERS = { accept: 'image/*, video/*, audio/*, */*;q=0.5', 'accept-encoding': 'identity' }
const REDIRECTS = new Set([301, 302, 303, 307, 308])

/**
 * Fetches media from URLs that clients send, without giving them access to the server's own network. Only http(s) on
 * the standard ports and public addresses are allowed. Both are checked at every redirect. The connection is made to
 * the address that was checked, because a second look-up could return another.
 */
export class GuardedFetcher {
  readonly #policy: FetchPolicy
  /** Null until the first fetch: the library takes 10 MiB. */
  #client: Promise<Client> | null = null

  constructor(policy: FetchPolicy) {
    this.#policy = policy
  }

  /**
   * Yields the bytes as they arrive.
   * @throws ApiError 400 naming `param` when the URL is not allowed or its server fails, 503 when this server is at
   * fault.
   */
  async *fetch(url: URL, options: Fetch): AsyncGenerator<Uint8Array, void, void> {
    const { param, signal } = options
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(this.#policy.timeoutMs)])
    const headers = { ...options.headers, ...OWN_HEADERS, 'user-agent': await userAgent() }
    let target = url
    try {
      this.#client ??= openClient(this.#policy)
      const { request, guarded, unguarded } = await this.#client
      for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
        const allowed = this.#check(target, param)
        const dispatcher = allowed ? unguarded : guarded
        const response = await request(target.href, { dispatcher, signal: deadline, headers })
        const location = response.headers.location
        if (REDIRECTS.has(response.statusCode) && typeof location === 'string') {
          discard(response.body)
          if (!URL.canParse(location, target.href)) throw unreachable(url, 'redirected to an invalid URL', param)
          target = new URL(location, target)
          continue
        }
        if (response.statusCode !== 200) {
          discard(response.body)
          throw unreachable(url, `HTTP ${response.statusCode}`, param)
        }
        return yield* this.#read(response, url, options)
      }
      throw unreachable(url, `more than ${MAX_REDIRECTS} redirects`, param)
    } catch (error) {
      if (error instanceof ApiError) throw error
      signal.throwIfAborted()
      if (error instanceof ForbiddenAddress) throw forbidden(target, param)
      if (deadline.aborted) throw unreachable(url, `no response within ${this.#policy.timeoutMs / 1000} s`, param)
      if (isOwnFailure(error)) {
        const message = `The server cannot fetch media at the moment. Try again in ${RETRY_AFTER_S} seconds.`
        throw serviceUnavailable(message, RETRY_AFTER_S, error)
      }
      throw unreachable(url, failureReason(error), param, error)
    }
  }

  async close(): Promise<void> {
    const client = await this.#client
    await Promise.all([client?.guarded.destroy(), client?.unguarded.destroy()])
  }

  /** @returns whether the host is on the allow-list, so that it need not be public. */
  #check(url: URL, param: string): boolean {
    if (url.protocol !== 'http:' && url.protocol !== 'https:') {
      throw invalidRequest(`The URL must be an http(s) URL or a base64 data URL, not ${url.protocol}`, param)
    }
    const { allowedHosts } = this.#policy
    if (allowedHosts.has(url.hostname) || allowedHosts.has(url.host)) return true
    if (url.port !== '') throw invalidRequest(`Fetching media from port ${url.port} is not allowed`, param)
    const literal = literalAddress(url.hostname)
    if (literal !== null && !isPublic(literal)) throw forbidden(url, param)
    return false
  }

  async *#read({ body, headers }: Answer, url: URL, options: Fetch): AsyncGenerator<Uint8Array, void, void> {
    const { maxBytes, param } = options
    const tooLarge = () => unreachable(url, `larger than ${Math.floor(maxBytes / 2 ** 20)} MiB`, param)
    try {
      const encoding = String(headers['content-encoding'] ?? '')
      const decode = decoderOf(encoding)
      if (decode === null) {
        throw unreachable(url, `its Content-Encoding, '${encoding.slice(0, 50)}', is not supported`, param)
      }
      if (Number(headers['content-length'] ?? 0) > maxBytes) throw tooLarge()
      // A few compressed bytes can hold many, and many can hold none: both are limited.
      yield* upTo(maxBytes, decode(upTo(maxBytes, body, tooLarge)), tooLarge)
    } catch (error) {
      throw error instanceof InvalidEncoding ? unreachable(url, error.message, param, error) : error
    } finally {
      discard(body)
    }
  }
}

interface Answer {
  readonly body: Readable
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

async function* upTo(
  limit: number,
  pieces: AsyncIterable<Uint8Array>,
  tooLarge: () => ApiError,
): AsyncGenerator<Uint8Array, void, void> {
  let size = 0
  for await (const piece of pieces) {
    size += piece.byteLength
    if (size > limit) throw tooLarge()
    yield piece
  }
}

interface Client {
  readonly request: typeof import('undici').request
  readonly guarded: Agent
  readonly unguarded: Agent
}

async function openClient({ resolve }: FetchPolicy): Promise<Client> {
  const { Agent, request } = await import('undici')
  const guarded = new Agent({ connections: 16, connect: { lookup: guardedLookup(isPublic, resolve) } })
  return { request, guarded, unguarded: new Agent({ connections: 16 }) }
}

/** Closes a response without reading its body. The body then emits an error, which is expected. */
function discard(body: Readable): void {
  body.on('error', () => {}).destroy()
}

function forbidden(url: URL, param: string): ApiError {
  return invalidRequest(`Fetching media from ${url.hostname} is not allowed: its address is not public`, param)
}

function unreachable(url: URL, reason: string, param: string, cause?: unknown): ApiError {
  return invalidRequest(`Could not fetch the media at ${withoutSecrets(url)} (${reason})`, param, { cause })
}

/** Credentials and query strings often hold keys; an error message must not repeat them. */
function withoutSecrets(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname}`
}
