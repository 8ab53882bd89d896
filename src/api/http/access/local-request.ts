import type { FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'

/** The `Sec-Fetch-Site` of requests that do not come from another site. Programs send no such header. */
const OWN_SITES: ReadonlySet<unknown> = new Set([undefined, 'none', 'same-origin'])

/** Headers that proxies add. The sender of a request through a proxy may be anywhere. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'] as const

/**
 * Returns why a request may not come from a program on this machine; null if it does. Pages in browsers do not count: any
 * site's page could send requests, even through its own host name if that resolves to this machine.
 */
export function obstacleOf({ headers, socket }: Pick<FastifyRequest, 'headers' | 'socket'>): string | null {
  const address = socket.remoteAddress ?? ''
  if (!ipaddr.isValid(address) || ipaddr.process(address).range() !== 'loopback') {
    return 'this one comes from another machine'
  }
  const forwarded = FORWARDED.find((name) => headers[name] !== undefined)
  if (forwarded !== undefined) return `this one came through a proxy (${forwarded})`
  if (!isLocalName(hostname(`http://${headers.host}`))) return 'this one names another host'
  const { origin } = headers
  // Browsers omit the origin when a page shows or opens a resource without reading it: a picture, a script, a link.
  const isForeign = origin === undefined ? !OWN_SITES.has(headers['sec-fetch-site']) : !isLocalName(hostname(origin))
  return isForeign ? 'this one is from another site’s page' : null
}

/** Returns null for a text that is not an HTTP URL, such as `null`, which sandboxed pages send. */
function hostname(url: string): string | null {
  if (!URL.canParse(url)) return null
  const { protocol, hostname } = new URL(url)
  return protocol === 'http:' || protocol === 'https:' ? hostname : null
}

function isLocalName(name: string | null): boolean {
  return name !== null && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(name)
}
