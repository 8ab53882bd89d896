import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'
import type { Writable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { probeHalfClosed } from './half-close.ts'

/** Well below the 60 s after which clients give up on a silent connection. */
const KEEP_ALIVE_MS = 15_000
/** A client that reads nothing for this long is disconnected. */
const STALL_MS = 60_000

/** How a sequence of values is written. */
export interface Framing {
  readonly headers: OutgoingHttpHeaders
  frame(data: string, name?: string): string
  /** Bytes that clients skip. */
  readonly filler: string
  /** Whether fillers keep an idle stream alive. */
  readonly keepsAlive: boolean
}

/** Server-Sent Events. */
export const EVENTS: Framing = {
  headers: {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  },
  frame: (data, name) => (name === undefined ? `data: ${data}\n\n` : `event: ${name}\ndata: ${data}\n\n`),
  filler: ': keep-alive\n\n',
  keepsAlive: true,
}

/** One value per line. */
export const JSON_LINES: Framing = {
  headers: { 'content-type': 'application/x-ndjson', 'cache-control': 'no-cache' },
  frame: (data) => `${data}\n`,
  // Clients accept a blank before a value, but not an empty line.
  filler: ' ',
  keepsAlive: false,
}

/** A response that is sent value by value. It takes over the response from Fastify. */
export class ResponseStream {
  readonly #raw: ServerResponse
  readonly #framing: Framing
  readonly #keepAlive: NodeJS.Timeout | null
  /** Whether this stream frames its chunks itself. HTTP 1.0 has no chunks. */
  readonly #chunked: boolean
  #full: Promise<void> | null = null

  /** Sends the status and the headers immediately. */
  constructor(reply: FastifyReply, framing: Framing, keepAliveMs = KEEP_ALIVE_MS) {
    const headers = reply.getHeaders() as OutgoingHttpHeaders
    reply.hijack()
    this.#raw = reply.raw
    this.#framing = framing
    this.#raw.writeHead(200, { ...headers, ...framing.headers })
    this.#raw.flushHeaders()
    // Node would write each chunk in four parts, which costs twice as much as one.
    this.#chunked = this.#raw.chunkedEncoding
    this.#raw.chunkedEncoding = false
    const fill = () => {
      if (!this.#raw.writableNeedDrain) this.#write(framing.filler)
    }
    this.#keepAlive = framing.keepsAlive ? setInterval(fill, keepAliveMs) : null
    probeHalfClosed(this.#raw, fill)
    this.#raw.once('close', () => this.#rest())
  }

  /** Whether the client has left. */
  get isClosed(): boolean {
    return this.#raw.destroyed
  }

  /** Null while the client can take more; else a promise that resolves when it can, or has disconnected. */
  get full(): Promise<void> | null {
    return this.#full
  }

  /**
   * Sends one value, whether or not the client can take more.
   * @param data must not contain line breaks.
   * @param name of the event, if the convention has one.
   */
  send(data: string, name?: string): void {
    this.#keepAlive?.refresh()
    if (this.#raw.destroyed || this.#write(this.#framing.frame(data, name))) return
    this.#full ??= drained(this.#raw).then(() => {
      this.#full = null
    })
  }

  end(): void {
    this.#rest()
    this.#raw.end(this.#chunked ? '0\r\n\r\n' : '')
  }

  #rest(): void {
    if (this.#keepAlive !== null) clearInterval(this.#keepAlive)
  }

  #write(text: string): boolean {
    if (!this.#chunked) return this.#raw.write(text)
    return this.#raw.write(`${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`)
  }
}

/** Resolves when a client can take more, or has disconnected, as one that reads nothing for a minute is. */
export function drained(raw: Writable): Promise<void> {
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
