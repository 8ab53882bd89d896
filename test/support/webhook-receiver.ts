import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { WatchEvent } from './watch-client.ts'

export interface Received {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly event: WatchEvent
}

/** What a request is answered with; null leaves it without an answer. */
export type Answer = { readonly status: number; readonly headers?: Record<string, string> } | null

/** A server of someone who gets webhooks. */
export class WebhookReceiver {
  readonly url: string
  /** What it has got, in order. */
  readonly received: Received[] = []
  answer: (received: Received) => Answer = () => ({ status: 204 })
  readonly #server: Server

  private constructor(server: Server) {
    this.#server = server
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
    server.on('request', async (request, response) => {
      const body = await text(request).catch(() => null)
      if (body === null) return
      const received = { path: request.url!, headers: request.headers, body, event: JSON.parse(body) }
      this.received.push(received)
      const answer = this.answer(received)
      if (answer !== null) response.writeHead(answer.status, answer.headers).end()
    })
  }

  static async start(): Promise<WebhookReceiver> {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new WebhookReceiver(server)
  }

  /** The events of one watch, in the order in which they came. */
  eventsOf(watch: string): readonly WatchEvent[] {
    return this.received.map(({ event }) => event).filter(({ data }) => data.watch === watch)
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
