import type { FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'

/** What browsers say of a request that no other page has made; programs say nothing. */
const OWN_SITES: ReadonlySet<unknown> = new Set([undefined, 'none', 'same-origin'])

/** What proxies add: whoever sent the request to them may be anywhere. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'] as const

/**
 * Why a request may not be one of a program on this machine; null if it is. Pages of browsers are not: any site's page could
 * send it, also under a name of its own that it has lead here.
 */
export function obstacleOf({ headers, socket }: Pick<FastifyRequest, 'headers' | 'socket'>): string | null {
  const address = socket.remoteAddress ?? ''
  if (!ipaddr.isValid(address) || ipaddr.process(address).range() !== 'loopback') {
    return 'this one comes from another'
  }
  const forwarded = FORWARDED.find((name) => headers[name] !== undefined)
  if (forwarded !== undefined) return `this one came through a proxy (${forwarded})`
  if (!isLocalName(hostname(`http://${headers.host}`))) return 'this one names another host'
  const { origin } = headers
  // Browsers leave the origin out of what a page shows or opens rather than reads: a picture, a script, a link.
  const isForeign = origin === undefined ? !OWN_SITES.has(headers['sec-fetch-site']) : !isLocalName(hostname(origin))
  return isForeign ? 'this one is from the page of another' : null
}

/** Null for what is no address of HTTP, such as `null`, which sandboxed pages send. */
function hostname(url: string): string | null {
  if (!URL.canParse(url)) return null
  const { protocol, hostname } = new URL(url)
  return protocol === 'http:' || protocol === 'https:' ? hostname : null
}

function isLocalName(name: string | null): boolean {
  return name !== null && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(name)
}
