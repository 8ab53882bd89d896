import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'

/** Clients give up on a connection that is silent for 60 s. */
const KEEP_ALIVE_MS = 15_000
/** A reader that takes nothing for this long is gone. */
const STALL_MS = 60_000

/** Server-Sent Events on a reply that it takes over from the framework. */
export class EventStream {
  readonly #raw: ServerResponse
  readonly #keepAlive: NodeJS.Timeout

  /** Sends status and headers at once. */
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

  /** One `data:` event. Resolves when the reader keeps up, or has gone; the text must hold no line breaks. */
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
