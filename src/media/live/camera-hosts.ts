import ipaddr from 'ipaddr.js'
import { hostSet } from '../../lib/guarded-agent.ts'
import { literalAddress } from '../../lib/public-address.ts'

type Range = [ipaddr.IPv4 | ipaddr.IPv6, number]

/** Hosts of the cameras that clients may describe. */
export class CameraHosts {
  readonly #names: ReadonlySet<string>
  readonly #ranges: readonly Range[]

  /** @param allowed hosts (`host` or `host:port`) and networks (CIDR). */
  constructor(allowed: readonly string[]) {
    this.#ranges = allowed.filter((text) => ipaddr.isValidCIDR(text)).map((text) => ipaddr.parseCIDR(text))
    this.#names = hostSet(allowed.filter((text) => !ipaddr.isValidCIDR(text)))
  }

  /**
   * Whether a camera may be at a host, as far as can be said without a DNS lookup; `addresses` if that depends on the
   * addresses of the name.
   */
  allows(host: string, port: number): boolean | 'addresses' {
    const bracketed = host.includes(':') ? `[${host}]` : host
    if (this.#names.has(host) || this.#names.has(bracketed) || this.#names.has(`${bracketed}:${port}`)) return true
    if (literalAddress(host) !== null) return this.allowsAddress(host)
    return this.#ranges.length > 0 ? 'addresses' : false
  }

  /** Whether an address is in one of the networks. */
  allowsAddress(address: string): boolean {
    if (!ipaddr.isValid(address)) return false
    // IPv4 addresses that are written as IPv6 are compared as IPv4.
    const parsed = ipaddr.process(address)
    return this.#ranges.some((range) => parsed.kind() === range[0].kind() && parsed.match(range))
  }
}
