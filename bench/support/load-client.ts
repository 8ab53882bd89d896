/**
 * Clients of a chat server in a process of their own, which does as little as it can: one socket for each, which sends a
 * request, reads its response to the end and sends the next. Its only argument is a `Load` as JSON. It prints `measuring`
 * when the clients have run for a while, and what it saw from then on, as JSON.
 */
import { readFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { FRESH, type Load, type Observed } from './load.ts'
import { readStamps } from './stamp.ts'

/** Time after the last client started until the measurement begins. */
const SETTLE_MS = 2_000
/** Longer than every response but those of long streams, which are cut off. */
const STOP_MS = 3_000
const MAX_SAMPLES = 200_000

class Clients {
  readonly #load: Load
  readonly #requests: readonly Buffer[]
  /** Where `FRESH` is in each; -1 where it is not. */
  readonly #places: readonly number[]
  /** One for all: every piece is read to its end before the next arrives. */
  readonly #buffer = Buffer.allocUnsafe(64 * 1024)
  #sent = 0
  #active = 0
  #isStopping = false
  #since = 0
  #responses = 0
  #events = 0
  #tokens = 0
  #bytes = 0
  #firstMs: number[] = []
  #totalMs: number[] = []
  #lateMs: number[] = []

  constructor(load: Load, bodies: readonly Buffer[]) {
    this.#load = load
    const { host } = new URL(load.url)
    this.#requests = bodies.map((body) =>
      Buffer.concat([
        Buffer.from(
          `POST /v1/chat/completions HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${load.key}\r\n` +
            `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`,
        ),
        body,
      ]),
    )
    this.#places = this.#requests.map((request) => request.indexOf(FRESH))
  }

  async start(): Promise<void> {
    const { clients, rampMs } = this.#load
    const started = performance.now()
    for (let i = 0; i < clients; i++) {
      const wait = started + (i * rampMs) / clients - performance.now()
      if (wait > 1) await delay(wait)
      this.#open()
    }
  }

  /** Sends nothing more, and waits for what is under way. */
  async stop(): Promise<void> {
    this.#isStopping = true
    for (const limit = performance.now() + STOP_MS; this.#active > 0 && performance.now() < limit; ) await delay(10)
  }

  reset(): void {
    this.#since = performance.now()
    this.#responses = this.#events = this.#tokens = this.#bytes = 0
    this.#firstMs = []
    this.#totalMs = []
    this.#lateMs = []
  }

  get observed(): Observed {
    return {
      ms: performance.now() - this.#since,
      responses: this.#responses,
      events: this.#events,
      tokens: this.#tokens,
      bytes: this.#bytes,
      firstMs: this.#firstMs,
      totalMs: this.#totalMs,
      lateMs: this.#lateMs,
    }
  }

  #next(): Buffer {
    const request = this.#requests[this.#sent % this.#requests.length]!
    const place = this.#places[this.#sent % this.#requests.length]!
    if (place < 0) this.#sent++
    else request.write((this.#sent++).toString(36).padStart(FRESH.length, '0'), place)
    // A copy, because the socket may still hold it when the next request is made.
    return place < 0 ? request : Buffer.from(request)
  }

  #open(): void {
    const { hostname, port } = new URL(this.#load.url)
    let rest = ''
    let askedAt = 0
    let hasFirst = false
    /** Bytes of the response that are still to come; null for one that is streamed, or whose headers are not there. */
    let left: number | null = null
    const ask = () => {
      if (this.#isStopping) return
      this.#active++
      askedAt = performance.now()
      hasFirst = false
      left = null
      rest = ''
      socket.write(this.#next())
    }
    const take = (piece: string) => {
      this.#bytes += piece.length
      const { count, lateMs } = readStamps(piece)
      this.#tokens += count
      if (lateMs !== null && this.#lateMs.length < MAX_SAMPLES) this.#lateMs.push(lateMs)
      for (let at = piece.indexOf('data: {'); at >= 0; at = piece.indexOf('data: {', at + 7)) this.#events++
      if (!hasFirst) {
        rest += piece
        const head = rest.indexOf('\r\n\r\n')
        if (head < 0 || head + 4 === rest.length) return
        if (!rest.startsWith('HTTP/1.1 200')) throw new Error(`Unexpected response: ${rest.slice(0, 500)}`)
        hasFirst = true
        this.#firstMs.push(performance.now() - askedAt)
        const length = /^content-length: (\d+)\r$/im.exec(rest.slice(0, head + 2))?.[1]
        if (length !== undefined) left = head + 4 + Number(length) - rest.length
      } else {
        if (left !== null) left -= piece.length
        else rest = (rest + piece).slice(-END.length)
      }
      if (left === null ? !rest.endsWith(END) : left > 0) return
      this.#active--
      this.#responses++
      this.#totalMs.push(performance.now() - askedAt)
      ask()
    }
    const socket: Socket = connect({
      host: hostname,
      port: Number(port),
      noDelay: true,
      onread: {
        buffer: this.#buffer,
        callback: (length, buffer) => {
          take(Buffer.from(buffer.buffer, buffer.byteOffset, length).toString('latin1'))
          return true
        },
      },
    })
    socket.on('connect', ask)
    socket.on('error', (error) => {
      throw error
    })
    socket.on('close', () => {
      if (!this.#isStopping) throw new Error('The server closed a connection')
    })
  }
}

/** The end of a chunked response. */
const END = '0\r\n\r\n'

const load = JSON.parse(process.argv[2]!) as Load
const clients = new Clients(load, await Promise.all(load.bodies.map((file) => readFile(file))))
await clients.start()
await delay(SETTLE_MS)
clients.reset()
process.stdout.write('measuring\n')
await delay(load.measureMs)
process.stdout.write(`${JSON.stringify(clients.observed)}\n`)
await clients.stop()
process.exit(0)
