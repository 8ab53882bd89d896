import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Metrics } from './metrics.ts'

export interface MetricsAddress {
  readonly host: string
  /** 0 for any that is free. */
  readonly port: number
}

/** Why metrics are not served at an address, for the operator. */
export function cannotListen({ host, port }: MetricsAddress, cause: Error): Error {
  return new Error(`LOOKOUT_METRICS_PORT: metrics cannot be served at ${host}:${port}: ${cause.message}`, { cause })
}

/** Serves `GET /metrics`, apart from the API: whoever reaches this port needs no key. */
export class MetricsServer {
  readonly #server: Server

  /** @throws Error when it cannot listen there. */
  static async start(metrics: Metrics, address: MetricsAddress): Promise<MetricsServer> {
    const server = createServer((request, response) => {
      const path = request.url?.split('?', 1)[0]
      if (path !== '/metrics' || (request.method !== 'GET' && request.method !== 'HEAD')) {
        response.writeHead(404, { 'content-type': 'text/plain' }).end('GET /metrics is all that there is here\n')
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
    return new MetricsServer(server)
  }

  private constructor(server: Server) {
    this.#server = server
  }

  /** Where it listens. */
  get address(): AddressInfo {
    return this.#server.address() as AddressInfo
  }

  async close(): Promise<void> {
    this.#server.close()
    this.#server.closeAllConnections()
    await once(this.#server, 'close')
  }
}
