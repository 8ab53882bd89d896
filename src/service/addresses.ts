import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import ipaddr from 'ipaddr.js'
import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import { cannotListen, type MetricsAddress } from '../metrics/metrics-server.ts'

/** @throws Error when the server cannot listen on its addresses. */
export async function probeAddresses({ host, port, metrics }: Config): Promise<void> {
  await probe({ host, port }).catch((cause: NodeJS.ErrnoException) => {
    throw new Error(describeProblem(port, cause), { cause })
  })
  if (metrics === null) return
  await probe(metrics).catch((cause: Error) => {
    throw cannotListen(metrics, cause)
  })
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
    `${urlOf(info)} is open to other machines, without TLS: keys and media cross the network as they are, unless a proxy ` +
      'in front of it adds TLS and no one else can reach this port',
  )
}

export function urlOf({ address, family, port }: AddressInfo): string {
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`
}
