import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import { cannotListen, type MetricsAddress } from '../metrics/metrics-server.ts'

/** @throws Error when the server cannot listen on its addresses. */
export async function probeAddresses({ host, port, metrics }: Config): Promise<void> {
  await probe({ host, port }).catch(failToListen(port))
  if (metrics === null) return
  await probe(metrics).catch((cause: Error) => {
    throw cannotListen(metrics, cause)
  })
}

/** Says why the server cannot listen in terms of its settings. */
export function failToListen(port: number): (cause: Error) => never {
  return (cause) => {
    throw new Error(describeProblem(port, cause), { cause })
  }
}

function describeProblem(port: number, { code, message }: NodeJS.ErrnoException): string {
  if (code === 'EADDRINUSE') return `port ${port} is in use; set LOOKOUT_PORT to another one, or to 0 for any`
  if (code === 'EADDRNOTAVAIL') return 'LOOKOUT_HOST is not an address of this machine'
  return `LOOKOUT_HOST and LOOKOUT_PORT: ${message}`
}

async function probe({ host, port }: MetricsAddress): Promise<void> {
  const server = createServer().listen({ host, port })
  await once(server, 'listening')
  server.close()
  await once(server, 'close')
}

export function warnIfOpen(info: AddressInfo, logger: Logger): void {
  if (ipaddr.process(info.address).range() === 'loopback') return
  logger.warn(
    `${urlOf(info)} is open to other machines, without TLS: keys and media cross the network unencrypted, unless a proxy ` +
      'in front of it adds TLS and no one else can reach this port',
  )
}

/** Ports above 1023 that browsers and `fetch` block. */
const BLOCKED_PORTS = new Set([
  ...[1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697],
  10_080,
])

export function warnIfBlocked({ port }: AddressInfo, logger: Logger): void {
  if (!BLOCKED_PORTS.has(port)) return
  logger.warn(
    `browsers and many clients, the command line among them, refuse to call port ${port}; set LOOKOUT_PORT to another one`,
  )
}

export function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
