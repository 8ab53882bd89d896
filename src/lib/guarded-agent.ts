import { isIP } from 'node:net'
import type { Agent, Dispatcher } from 'undici'
import { guardedLookup, type HostResolver, isPublic, literalAddress } from './public-address.ts'

export interface AddressPolicy {
  /** The allow-list: hosts (`host` or `host:port`, lower case) that may be private and use any port. */
  readonly allowedHosts: ReadonlySet<string>
  /** Resolves all addresses of a host; the system's resolver by default. */
  readonly resolve?: HostResolver | undefined
}

/** What is wrong with an address that must not be asked. */
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

  /** What is wrong with an address, as far as it shows without a look-up; null for nothing. */
  refusalOf(url: URL): Refusal | null {
    if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'protocol'
    if (this.#isAllowed(url)) return null
    if (url.port !== '') return 'port'
    const literal = literalAddress(url.hostname)
    return literal !== null && !isPublic(literal) ? 'private' : null
  }

  /**
   * The caller reads or discards the body of the response.
   * @param url without a refusal.
   * @throws ForbiddenAddress for a name whose address is not public.
   */
  async request(url: URL, options: Options): Promise<Dispatcher.ResponseData> {
    this.#client ??= openClient(this.#policy)
    const { request, guarded, unguarded } = await this.#client
    return request(url.href, { ...options, dispatcher: this.#isAllowed(url) ? unguarded : guarded })
  }

  #isAllowed({ protocol, hostname, port }: URL): boolean {
    const { allowedHosts } = this.#policy
    // A URL leaves out the usual port, which the setting may name.
    return allowedHosts.has(hostname) || allowedHosts.has(`${hostname}:${port || USUAL_PORTS[protocol]}`)
  }

  async close(): Promise<void> {
    const client = await this.#client
    await Promise.all([client?.guarded.destroy(), client?.unguarded.destroy()])
  }
}

/** The form in which hosts are compared: that of a URL, with the port if one is given. */
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
