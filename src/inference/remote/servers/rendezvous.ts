import { createHash } from 'node:crypto'

/**
 * The servers in order of preference for a key: highest random weight first (Thaler and Ravishankar, 1998). When a
 * server is added or removed, only its own keys move.
 */
export function rendezvous<Server extends { readonly url: string }>(servers: readonly Server[], key: string): Server[] {
  return servers
    .map((server) => ({ server, weight: weightOf(server.url, key) }))
    .sort((a, b) => b.weight - a.weight)
    .map(({ server }) => server)
}

function weightOf(url: string, key: string): number {
  return createHash('sha256').update(`${url}\n${key}`).digest().readUIntBE(0, 6)
}
