import { isIP } from 'node:net'
import type { Agent, Dispatcher } from 'undici'
import { guardedLookup, type HostResolver, isPublic, literalAddress } from './public-address.ts'

export interface AddressPolicy {
  /** The allow-list: hosts (`host` or `host:port`, lower case) that may be private and use any port. */
  readonly allowedHosts: ReadonlySet<string>
  /** Resolves all addresses of a host; the system's resolver by default. */
  readonly resolve?: HostResolver | undefined
}

/** Why a URL must not be requested. */
export type Refusal = 'protocol' | 'port' | 'private'

type Options = Omit<Dispatcher.RequestOptions, 'origin' | 'path'>

const CONNECTIONS = 16
const USUAL_PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 }

/**
 * Sends requests to addresses that clients name, without giving them access to the server's own network. Only http(s) on
 * the standard ports and public addresses are allowed. The connection is made to the address that was checked, because a
 * second look-up could return another. It follows no redirect.
 */
export class GuardedAgent {
  readonly #policy: AddressPolicy
  /** Null until the first request: the library takes 10 MiB. */
  #client: Promise<Client> | null = null

  constructor(policy: AddressPolicy) {
    this.#policy = policy
  }

  /** Why a URL must not be requested, as far as that is known without resolving its host; null if it may be. */
  refusalOf(url: URL): Refusal | null {
    if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'protocol'
    if (this.#isAllowed(url)) return null
    if (url.port !== '') return 'port'
    const literal = literalAddress(url.hostname)
    return literal !== null && !isPublic(literal) ? 'private' : null
  }

  /**
   * The caller must read or discard the response's body.
   * @param url one that `refusalOf` allows.
   * @throws ForbiddenAddress for a host whose address is not public.
   */
  async request(url: URL, options: Options): Promise<Dispatcher.ResponseData> {
    this.#client ??= openClient(this.#policy)
    const { request, guarded, unguarded } = await this.#client
    return request(url.href, { ...options, dispatcher: this.#isAllowed(url) ? unguarded : guarded })
  }

  #isAllowed({ protocol, hostname, port }: URL): boolean {
    const { allowedHosts } = this.#policy
    // A URL omits the default port, which the setting may contain.
    return allowedHosts.has(hostname) || allowedHosts.has(`${hostname}:${port || USUAL_PORTS[protocol]}`)
  }

  async close(): Promise<void> {
    const client = await this.#client
    await Promise.all([client?.guarded.destroy(), client?.unguarded.destroy()])
  }
}

/** The normal form of hosts, for comparisons: that of a URL, with the port if one is given. */
export function hostSet(hosts: Iterable<string>): ReadonlySet<string> {
  return new Set([...hosts].map(comparable))
}

function comparable(given: string): string {
  const host = isIP(given) === 6 ? `[${given}]` : given
  const port = /:0*(\d+)$/.exec(host)?.[1]
  return new URL(`http://${host}`).hostname + (port === undefined ? '' : `:${port}`)
}

interface Client {
  readonly request: typeof import('undici').request
  readonly guarded: Agent
  readonly unguarded: Agent
}

async function openClient({ resolve }: AddressPolicy): Promise<Client> {
  const { Agent, request } = await import('undici')
  const guarded = new Agent({ connections: CONNECTIONS, connect: { lookup: guardedLookup(isPublic, resolve) } })
  return { request, guarded, unguarded: new Agent({ connections: CONNECTIONS }) }
}
