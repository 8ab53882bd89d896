import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import { drained } from '../../http/connection/event-stream.ts'
import { probeHalfClosed } from '../../http/connection/half-close.ts'

/** A stream of JSON, a value on each line. It takes the response over from Fastify. */
export class LineStream {
  readonly #raw: ServerResponse

  /** Sends the status and the headers immediately. */
  constructor(reply: FastifyReply) {
    const headers = reply.getHeaders() as OutgoingHttpHeaders
    reply.hijack()
    this.#raw = reply.raw
    this.#raw.writeHead(200, { ...headers, 'content-type': 'application/x-ndjson', 'cache-control': 'no-cache' })
    this.#raw.flushHeaders()
    // Clients take a blank before a value, but not an empty line.
    probeHalfClosed(this.#raw, () => this.#raw.write(' '))
  }

  /** @returns null when the client can take more; else a promise that resolves when it can, or has disconnected. */
  send(value: object): Promise<void> | null {
    if (this.#raw.destroyed || this.#raw.write(`${JSON.stringify(value)}\n`)) return null
    return drained(this.#raw)
  }

  end(): void {
    this.#raw.end()
  }
}
