import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'

/** Well below the 60 s after which clients give up on a silent connection. */
const KEEP_ALIVE_MS = 15_000
/** A client that reads nothing for this long is disconnected. */
const STALL_MS = 60_000

/** A stream of Server-Sent Events. It takes the response over from Fastify. */
export class EventStream {
  readonly #raw: ServerResponse
  readonly #keepAlive: NodeJS.Timeout

  /** Sends the status and the headers immediately. */
  constructor(reply: FastifyReply, keepAliveMs = KEEP_ALIVE_MS) {
    const headers = reply.getHeaders() as OutgoingHttpHeaders
    reply.hijack()
    this.#raw = reply.raw
    this.#raw.writeHead(200, {
      ...headers,
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
    })
    this.#raw.flushHeaders()
    this.#keepAlive = setInterval(() => {
      if (!this.#raw.writableNeedDrain) this.#raw.write(': keep-alive\n\n')
    }, keepAliveMs)
    this.#raw.once('close', () => clearInterval(this.#keepAlive))
  }

  /**
   * Sends one `data:` event. Resolves when the client can take more, or has disconnected.
   * @param data must not contain line breaks.
   */
  async send(data: string): Promise<void> {
    this.#keepAlive.refresh()
    if (this.#raw.destroyed || this.#raw.write(`data: ${data}\n\n`)) return
    await drained(this.#raw)
  }

  end(): void {
    clearInterval(this.#keepAlive)
    this.#raw.end()
  }
}

function drained(raw: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const stall = setTimeout(() => raw.destroy(), STALL_MS)
    const settle = () => {
      clearTimeout(stall)
      raw.off('drain', settle)
      raw.off('close', settle)
      resolve()
    }
    raw.on('drain', settle)
    raw.on('close', settle)
  })
}
