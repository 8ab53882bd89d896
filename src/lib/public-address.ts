import { type LookupAddress, type LookupAllOptions, lookup as resolveHost } from 'node:dns'
import type { LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'

export type HostResolver = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void

/** The global unicast range of IPv6 (RFC 4291). The rest includes tunnels and embedded IPv4 addresses. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')
/** Networks within an organisation. Loopback and link-local addresses are not among them. */
const PRIVATE_RANGES: ReadonlySet<string> = new Set(['private', 'uniqueLocal'])

/** Whether this is a public unicast address: not private, loopback, link-local, a tunnel or otherwise special. */
export function isPublic(address: string): boolean {
  if (!ipaddr.isValid(address)) return false
  // process() unwraps IPv4-mapped IPv6, so ::ffff:127.0.0.1 is checked as 127.0.0.1.
  const parsed = ipaddr.process(address)
  if (parsed instanceof ipaddr.IPv6 && !parsed.match(GLOBAL_UNICAST)) return false
  return parsed.range() === 'unicast'
}

export function isPrivate(address: string): boolean {
  return ipaddr.isValid(address) && PRIVATE_RANGES.has(ipaddr.process(address).range())
}

/** The address that a URL's host represents; null for a name. */
export function literalAddress(hostname: string): string | null {
  const literal = hostname.replace(/^\[|\]$/g, '')
  return ipaddr.isValid(literal) ? literal : null
}

/** The host resolves to an address that must not be contacted. */
export class ForbiddenAddress extends Error {}

/** A look-up that fails unless all addresses are allowed. The connection uses one of them without another look-up. */
export function guardedLookup(
  isAllowed: (address: string) => boolean | Promise<boolean> = isPublic,
  resolve: HostResolver = resolveHost,
): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, '')
      Promise.all(addresses.map(({ address }) => isAllowed(address))).then(
        (allowed) => {
          const first = addresses[0]
          if (!first || allowed.includes(false)) callback(new ForbiddenAddress(hostname), '')
          else if (options.all) callback(null, addresses)
          else callback(null, first.address, first.family)
        },
        (failure: Error) => callback(failure, ''),
      )
    })
  }
}
