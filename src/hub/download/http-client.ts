import { lookup } from 'node:dns/promises'
import type { Readable } from 'node:stream'
import { EnvHttpProxyAgent, request } from 'undici'
import { failureReason } from '../../lib/errors/fetch-failure.ts'
import { ForbiddenAddress, guardedLookup, isPrivate, isPublic, literalAddress } from '../../lib/public-address.ts'
import { userAgent } from '../../lib/version.ts'
import { decodedPath } from '../choice/model-address.ts'
import { HubError } from '../hub-error.ts'
import { type HubSettings, isWithoutProxy, readProxies } from '../hub-settings.ts'
import type { Tuning } from '../tuning.ts'

export interface HttpAnswer {
  /** Where the redirects ended. */
  readonly url: URL
  readonly status: number
  header(name: string): string | null
  readonly body: Readable & { dump(options?: { limit: number }): Promise<void> }
}

export interface HttpRequest {
  readonly headers?: Readonly<Record<string, string>>
  /** The address of the original request, if `url` came from a redirect; by default `url` itself. */
  readonly origin?: URL
  readonly signal: AbortSignal
}

interface Agents {
  readonly known: EnvHttpProxyAgent
  /** For hosts from a redirect. */
  readonly guarded: EnvHttpProxyAgent
}

/** A connection that failed or broke: worth another attempt. The message is the reason, for the middle of a sentence. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError'
}

const MAX_REDIRECTS = 5
const REDIRECTS = new Set([301, 302, 303, 307, 308])

/**
 * Sends requests to the hub and follows its redirects. The token goes only to the hub itself, and credentials in an
 * address only to its host. Everything is https, unless the hub's own address is not. Proxies are those of the
 * environment: HTTPS_PROXY, NO_PROXY.
 *
 * A redirect to another host must lead to a public address: a hub must not make the server send requests to hosts that
 * only the server can reach. A hub in a private network may redirect to other hosts there. The connection is made to
 * the address that was checked. A proxy resolves names by itself.
 */
export class HttpClient {
  readonly endpoint: URL
  readonly hasToken: boolean
  readonly #token: string | null
  readonly #agents: Agents
  /** For addresses that are reached without a proxy. */
  readonly #directAgents: Agents
  #isPrivateHub: Promise<boolean> | null = null

  constructor(settings: Pick<HubSettings, 'endpoint' | 'token'>, { stallMs }: Pick<Tuning, 'stallMs'>) {
    this.endpoint = settings.endpoint
    this.hasToken = settings.token !== null
    this.#token = settings.token
    const onlyAllowed = guardedLookup((address) => this.#isAllowed(address))
    const agents = (proxies: ReturnType<typeof readProxies>): Agents => {
      const shared = { bodyTimeout: stallMs, headersTimeout: stallMs, ...proxies }
      return {
        known: new EnvHttpProxyAgent({ ...shared, connect: { timeout: stallMs } }),
        guarded: new EnvHttpProxyAgent({ ...shared, connect: { timeout: stallMs, lookup: onlyAllowed } }),
      }
    }
    this.#agents = agents(readProxies(process.env))
    this.#directAgents = agents({ httpProxy: '', httpsProxy: '' })
  }

  /**
   * Follows redirects. The caller reads or destroys the body of the answer.
   * @throws ConnectionError; HubError for an address that is not allowed.
   */
  async get(url: URL, { headers = {}, origin = url, signal }: HttpRequest): Promise<HttpAnswer> {
    const known = new Set([origin.hostname, this.endpoint.hostname])
    let target = url
    for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
      this.#check(target)
      const isKnown = known.has(target.hostname)
      const literal = isKnown ? null : literalAddress(target.hostname)
      if (literal !== null && !(await this.#isAllowed(literal))) throw forbidden(target)
      const agents = isWithoutProxy(target.hostname, process.env) ? this.#directAgents : this.#agents
      const response = await this.#send(target, isKnown ? agents.known : agents.guarded, { headers, origin, signal })
      const header = (name: string): string | null => {
        const value = response.headers[name]
        return (Array.isArray(value) ? value[0] : value) ?? null
      }
      const location = header('location')
      if (!REDIRECTS.has(response.statusCode) || location === null) {
        return { url: target, status: response.statusCode, header, body: response.body }
      }
      await response.body.dump({ limit: 64 * 1024 }).catch(() => {})
      if (!URL.canParse(location, target.href))
        throw new ConnectionError(`${target.host} redirects to an invalid address`)
      target = new URL(location, target)
    }
    throw new ConnectionError(`${url.host} redirects more than ${MAX_REDIRECTS} times`)
  }

  async close(): Promise<void> {
    const all = [this.#agents, this.#directAgents].flatMap(({ known, guarded }) => [known, guarded])
    await Promise.all(all.map((agent) => agent.destroy()))
  }

  async #isAllowed(address: string): Promise<boolean> {
    if (isPublic(address)) return true
    this.#isPrivateHub ??= lookup(this.endpoint.hostname.replace(/^\[|\]$/g, ''), { all: true }).then(
      (addresses) => addresses.every((own) => isPrivate(own.address)),
      () => false,
    )
    return isPrivate(address) && (await this.#isPrivateHub)
  }

  async #send(url: URL, dispatcher: EnvHttpProxyAgent, { headers = {}, origin = url, signal }: HttpRequest) {
    const isHub = url.origin === this.endpoint.origin
    const basic = url.origin === origin.origin ? basicOf(origin) : null
    const authorization = isHub && this.hasToken ? `Bearer ${this.#token}` : basic
    const own = authorization === null ? {} : { authorization }
    const all = { 'user-agent': await userAgent(), 'accept-encoding': 'identity', ...headers, ...own }
    try {
      return await request(url.href, { dispatcher, signal, headers: all })
    } catch (error) {
      signal.throwIfAborted()
      if (error instanceof ForbiddenAddress) throw forbidden(url)
      throw connectionError(url.host, error)
    }
  }

  #check({ protocol, host }: URL): void {
    if (protocol === 'https:' || (protocol === 'http:' && this.endpoint.protocol === 'http:')) return
    throw new HubError(`Downloads from ${host} over ${protocol.slice(0, -1)} are not allowed: use an https address`)
  }
}

/** The credentials in an address, which are sent only to its origin. */
function basicOf({ username, password }: URL): string | null {
  if (username === '' && password === '') return null
  const text = [username, password].map(decodedPath).join(':')
  return `Basic ${Buffer.from(text).toString('base64')}`
}

function forbidden({ host }: URL): HubError {
  return new HubError(`A redirect leads to ${host}, whose address is not public: nothing is downloaded from there`)
}

export function connectionError(host: string, cause: unknown): ConnectionError {
  // undici has no code for it.
  const [, status] = /^Proxy response \((\d+)\)/.exec(cause instanceof Error ? cause.message : '') ?? []
  const login = status === '407' ? ', because it wants a user and a password' : ''
  const reason = status === undefined ? failureReason(cause) : `the proxy answered ${status}${login}`
  return new ConnectionError(`${host}: ${reason}`, { cause })
}
