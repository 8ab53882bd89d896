import type { Readable } from 'node:stream'
import { ApiError, invalidRequest, serviceUnavailable } from '../../lib/errors/errors.ts'
import { askTwice, failureReason, ownFailureOf } from '../../lib/errors/fetch-failure.ts'
import { type AddressPolicy, GuardedAgent } from '../../lib/guarded-agent.ts'
import { ForbiddenAddress } from '../../lib/public-address.ts'
import { userAgent } from '../../lib/version.ts'
import { decodePercent } from '../media-source.ts'
import { decoderOf, InvalidEncoding } from './content-encoding.ts'

export { type HostResolver, isPublic } from '../../lib/public-address.ts'

export interface FetchPolicy extends AddressPolicy {
  /** Time limit for the whole fetch, redirects included. */
  readonly timeoutMs: number
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
 * Fetches media from URLs that clients send, within the limits of `GuardedAgent`, which hold at every redirect. A URL's user
 * name and password are sent to its origin only.
 */
export class GuardedFetcher {
  readonly #agent: GuardedAgent
  readonly #timeoutMs: number

  constructor(policy: FetchPolicy) {
    this.#agent = new GuardedAgent(policy)
    this.#timeoutMs = policy.timeoutMs
  }

  /**
   * Yields the bytes as they arrive.
   * @throws ApiError 400 naming `param` when the URL is not allowed or its server fails, 503 when this server is at
   * fault.
   */
  async *fetch(url: URL, options: Fetch): AsyncGenerator<Uint8Array, void, void> {
    const { param, signal } = options
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(this.#timeoutMs)])
    const headers = { ...options.headers, ...OWN_HEADERS, 'user-agent': await userAgent() }
    let login = loginOf(url)
    let target = url
    try {
      for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
        this.#check(target, param)
        const sent = { ...headers, ...login }
        const ask = () => this.#agent.request(target, { method: 'GET', signal: deadline, headers: sent })
        const response = await askTwice(ask, deadline)
        const location = response.headers.location
        if (REDIRECTS.has(response.statusCode) && typeof location === 'string') {
          discard(response.body)
          if (!URL.canParse(location, target.href)) throw unreachable(url, 'redirected to an invalid URL', param)
          target = new URL(location, target)
          // A login for one server goes to no other, nor to the same one after a detour.
          if (target.origin !== url.origin) login = {}
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
      if (deadline.aborted) throw unreachable(url, `no response within ${this.#timeoutMs / 1000} s`, param)
      const failure = ownFailureOf(error)
      if (failure !== null) {
        const message = `The server cannot fetch media at the moment. Try again in ${RETRY_AFTER_S} seconds.`
        throw serviceUnavailable(message, RETRY_AFTER_S, failure)
      }
      throw unreachable(url, failureReason(error), param, error)
    }
  }

  async close(): Promise<void> {
    await this.#agent.close()
  }

  #check(url: URL, param: string): void {
    const refusal = this.#agent.refusalOf(url)
    if (refusal === 'protocol') {
      throw invalidRequest(`The URL must be an http(s) URL or a base64 data URL, not ${url.protocol}`, param)
    }
    if (refusal === 'port') throw invalidRequest(`Fetching media from port ${url.port} is not allowed`, param)
    if (refusal !== null) throw forbidden(url, param)
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
      // A few compressed bytes can expand to many, and many to none: both are limited.
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

/** The header that sends a URL's user name and password, if it has any. */
function loginOf({ username, password }: URL): Readonly<Record<string, string>> {
  if (username === '' && password === '') return {}
  const login = Buffer.concat([decodePercent(username), Buffer.from(':'), decodePercent(password)])
  return { authorization: `Basic ${login.toString('base64')}` }
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
