import { type LookupAddress, type LookupAllOptions, lookup as resolveHost } from 'node:dns'
import type { LookupFunction } from 'node:net'
import type { Readable } from 'node:stream'
import ipaddr from 'ipaddr.js'
import type { Agent } from 'undici'
import { ApiError, invalidRequest, serviceUnavailable } from '../lib/errors.ts'
import { failureReason, isOwnFailure } from '../lib/fetch-failure.ts'

export interface FetchPolicy {
  /** The allow-list: hosts (`host` or `host:port`, lower case) that may be private and use any port. */
  readonly allowedHosts: ReadonlySet<string>
  /** Time limit for the whole fetch, redirects included. */
  readonly timeoutMs: number
  /** Resolves all addresses of a host; the system's resolver by default. */
  readonly resolve?: HostResolver
}

export type HostResolver = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

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
    const headers = { ...options.headers, accept: '*/*' }
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
        const announced = Number(response.headers['content-length'] ?? 0)
        return yield* this.#read(response.body, announced, url, options)
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
    const literal = url.hostname.replace(/^\[|\]$/g, '')
    if (ipaddr.isValid(literal) && !isPublic(literal)) throw forbidden(url, param)
    return false
  }

  async *#read(
    body: AsyncIterable<Uint8Array>,
    announced: number,
    url: URL,
    options: Fetch,
  ): AsyncGenerator<Uint8Array, void, void> {
    const { maxBytes, param } = options
    const tooLarge = () => unreachable(url, `larger than ${Math.floor(maxBytes / 2 ** 20)} MiB`, param)
    if (announced > maxBytes) throw tooLarge()
    let size = 0
    for await (const piece of body) {
      size += piece.byteLength
      if (size > maxBytes) throw tooLarge()
      yield piece
    }
  }
}

interface Client {
  readonly request: typeof import('undici').request
  readonly guarded: Agent
  readonly unguarded: Agent
}

async function openClient({ resolve = resolveHost }: FetchPolicy): Promise<Client> {
  const { Agent, request } = await import('undici')
  const guarded = new Agent({ connections: 16, connect: { lookup: publicOnly(resolve) } })
  return { request, guarded, unguarded: new Agent({ connections: 16 }) }
}

/** Closes a response without reading its body. The body then emits an error, which is expected. */
function discard(body: Readable): void {
  body.on('error', () => {}).destroy()
}

/** The global unicast range of IPv6 (RFC 4291). The rest includes tunnels and embedded IPv4 addresses. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')

/** Whether this is a public unicast address: not private, loopback, link-local, a tunnel or otherwise special. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false
  // process() unwraps IPv4-mapped IPv6, so ::ffff:127.0.0.1 is checked as 127.0.0.1.
  const parsed = ipaddr.process(address)
  if (parsed instanceof ipaddr.IPv6 && !parsed.match(GLOBAL_UNICAST)) return false
  return parsed.range() === 'unicast'
}

class ForbiddenAddress extends Error {}

/** A look-up that fails unless all addresses are public. The connection uses one of them without another look-up. */
function publicOnly(resolve: HostResolver): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, '')
      const forbiddenOne = addresses.find(({ address }) => !isPublic(address))
      const first = addresses[0]
      if (forbiddenOne || !first) return callback(new ForbiddenAddress(hostname), '')
      if (options.all) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }
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
