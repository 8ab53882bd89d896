import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Metrics } from './metrics.ts'

export interface MetricsAddress {
  readonly host: string
  /** 0 for any free port. */
  readonly port: number
}

/** The error for an operator when the metrics address cannot be used. */
export function cannotListen({ host, port }: MetricsAddress, cause: Error): Error {
  return new Error(`LOOKOUT_METRICS_PORT: metrics cannot be served at ${host}:${port}: ${cause.message}`, { cause })
}

/**
 * Serves `GET /metrics` on a port of its own, without an API key.
 * @throws Error when it cannot listen on the address.
 */
export async function serveMetrics(metrics: Metrics, address: MetricsAddress) {
  const server = createServer((request, response) => {
    const path = request.url?.split('?', 1)[0]
    if (path !== '/metrics' || (request.method !== 'GET' && request.method !== 'HEAD')) {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('Not found; the metrics are at GET /metrics\n')
      return
    }
    metrics.read().then(
      (text) => response.writeHead(200, { 'content-type': metrics.contentType }).end(text),
      (error: Error) => response.writeHead(500, { 'content-type': 'text/plain' }).end(`${error.message}\n`),
    )
  })
  server.listen(address)
  await once(server, 'listening').catch((cause: Error) => {
    throw cannotListen(address, cause)
  })
  return {
    /** The address it listens on. */
    address: server.address() as AddressInfo,
    async close(): Promise<void> {
      server.close()
      server.closeAllConnections()
      await once(server, 'close')
    },
  }
}
