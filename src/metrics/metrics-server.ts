import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Metrics } from './metrics.ts'

/** Serves `GET /metrics`, apart from the API: whoever reaches this port needs no key. */
export class MetricsServer {
  readonly #server: Server

  /** @throws Error when it cannot listen there. */
  static async start(metrics: Metrics, { host, port }: { host: string; port: number }): Promise<MetricsServer> {
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
    server.listen(port, host)
    await once(server, 'listening').catch((error: Error) => {
      throw new Error(`LOOKOUT_METRICS_PORT: metrics cannot be served at ${host}:${port}: ${error.message}`)
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
