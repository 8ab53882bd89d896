import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { FastifyReply } from 'fastify'
import { probeHalfClosed } from './half-close.ts'

/** Well below the 60 s after which clients give up on a silent connection. */
const KEEP_ALIVE_MS = 15_000
/** A client that reads nothing for this long is disconnected. */
const STALL_MS = 60_000

/** A stream of Server-Sent Events. It takes the response over from Fastify. */
export class EventStream {
  readonly #raw: ServerResponse
  readonly #keepAlive: NodeJS.Timeout
  /** Whether this stream frames its chunks itself. HTTP 1.0 has no chunks. */
  readonly #framed: boolean

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
    // Node would give the kernel each chunk in four parts, which costs twice as much as one.
    this.#framed = this.#raw.chunkedEncoding
    this.#raw.chunkedEncoding = false
    const comment = () => {
      if (!this.#raw.writableNeedDrain) this.#write(': keep-alive\n\n')
    }
    this.#keepAlive = setInterval(comment, keepAliveMs)
    probeHalfClosed(this.#raw, comment)
    this.#raw.once('close', () => clearInterval(this.#keepAlive))
  }

  /**
   * Sends one `data:` event.
   * @param data must not contain line breaks.
   * @param name of the event, where the convention has one.
   * @returns null when the client can take more; else a promise that resolves when it can, or has disconnected.
   */
  send(data: string, name?: string): Promise<void> | null {
    this.#keepAlive.refresh()
    const head = name === undefined ? '' : `event: ${name}\n`
    if (this.#raw.destroyed || this.#write(`${head}data: ${data}\n\n`)) return null
    return drained(this.#raw)
  }

  end(): void {
    clearInterval(this.#keepAlive)
    this.#raw.end(this.#framed ? '0\r\n\r\n' : '')
  }

  #write(text: string): boolean {
    if (!this.#framed) return this.#raw.write(text)
    return this.#raw.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`)
  }
}

export function drained(raw: ServerResponse): Promise<void> {
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
