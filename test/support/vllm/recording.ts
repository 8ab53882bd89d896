import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { isDeepStrictEqual } from 'node:util'

/** What a server was asked, and what it answered. */
export interface Exchange {
  readonly method: string
  readonly path: string
  /** As JSON, without what differs each time. */
  readonly asked: unknown
  readonly status: number
  readonly answer: string
}

/** Stands before a server and writes down what passes. */
export class Recorder implements AsyncDisposable {
  readonly exchanges: Exchange[] = []
  readonly #server: Server
  readonly url: string

  private constructor(server: Server, url: string) {
    this.#server = server
    this.url = url
  }

  /** @param target where the server is. */
  static async start(target: string): Promise<Recorder> {
    const server = createServer()
    const recorder = new Recorder(server, await listen(server))
    server.on('request', (request, response) => void recorder.#pass(target, request, response))
    return recorder
  }

  async #pass(target: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request)
    const { method = '', url: path = '' } = request
    const answer = await fetch(target + path, {
      method,
      headers: { 'content-type': 'application/json' },
      ...(method === 'GET' ? {} : { body }),
    })
    const text = await answer.text()
    this.exchanges.push({ method, path, asked: normalised(body), status: answer.status, answer: text })
    response.writeHead(answer.status).end(text)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}

/** What goes wrong with one request for a completion. */
export type Fault =
  | { readonly type: 'status'; readonly status: number; readonly message: string }
  /** The stream ends in order after this many lines. */
  | { readonly type: 'end'; readonly lines: number }
  /** The server gives the completion up after this many lines, as when it shuts down. */
  | { readonly type: 'abort'; readonly lines: number }
  /** The connection breaks after this many lines of the stream. */
  | { readonly type: 'cut'; readonly lines: number }
  /** Nothing comes after this many lines. */
  | { readonly type: 'silence'; readonly lines: number }

/** Answers what was recorded as it was answered then; anything else is an error. */
export class Player implements AsyncDisposable {
  readonly #server: Server
  /** What it answers; another list makes it another server. */
  exchanges: readonly Exchange[]
  readonly url: string
  /** For the next requests for completions, one each. */
  readonly faults: Fault[] = []
  /** Requests for completions that it has got. */
  completions = 0
  /** Pictures whose pixels came with a request. */
  pictures = 0
  /** Streams whose reader has left before their end. */
  abandoned = 0
  /** Connections that it has taken. */
  connections = 0
  /** Tokens that each piece of the last request for a completion is to have; null for the server's own choice. */
  tokensAtOnce: number | null = null
  isHealthy = true
  /** Whether streams stay open behind their last event, until `endStreams`. */
  holdsEnds = false
  readonly #held: ServerResponse[] = []

  private constructor(server: Server, exchanges: readonly Exchange[], url: string) {
    this.#server = server
    this.exchanges = exchanges
    this.url = url
  }

  static async start(exchanges: readonly Exchange[]): Promise<Player> {
    const server = createServer()
    const player = new Player(server, exchanges, await listen(server))
    server.on('request', (request, response) => void player.#play(request, response))
    server.on('connection', () => player.connections++)
    return player
  }

  async #play(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request)
    const { method = '', url: path = '' } = request
    if (path === '/health' && !this.isHealthy) {
      response.writeHead(503).end()
      return
    }
    const asked = normalised(body)
    const isStream = path === '/inference/v1/generate' && (asked as { stream?: boolean }).stream === true
    if (isStream) {
      this.completions++
      this.pictures += sentPictures(body)
      this.tokensAtOnce = JSON.parse(body).sampling_params.stream_interval ?? null
    }
    const fault = isStream ? this.faults.shift() : undefined
    if (fault?.type === 'status') {
      response.writeHead(fault.status).end(JSON.stringify({ error: { message: fault.message, code: fault.status } }))
      return
    }
    const found = this.exchanges.find(
      (one) => one.method === method && one.path === path && isDeepStrictEqual(one.asked, asked),
    )
    if (found === undefined) {
      response
        .writeHead(400)
        .end(JSON.stringify({ error: { message: `Not recorded: ${JSON.stringify(asked).slice(0, 2000)}`, code: 400 } }))
      return
    }
    response.writeHead(found.status)
    if (fault === undefined && isStream && this.holdsEnds) {
      this.#held.push(response)
      response.write(found.answer)
      return
    }
    if (fault === undefined) {
      response.end(found.answer)
      return
    }
    response.once('close', () => {
      if (!response.writableFinished) this.abandoned++
    })
    response.write(
      found.answer
        .split(/(?<=\n\n)/)
        .slice(0, fault.lines)
        .join(''),
    )
    if (fault.type === 'cut') setImmediate(() => response.destroy())
    if (fault.type === 'end') response.end()
    if (fault.type === 'abort') {
      const choice = { index: 0, token_ids: [], finish_reason: 'abort' }
      response.end(`data: ${JSON.stringify({ choices: [choice] })}\n\ndata: [DONE]\n\n`)
    }
  }

  endStreams(): void {
    for (const response of this.#held.splice(0)) response.end()
  }

  /** As a server that has crashed: it does not even take connections. */
  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}

/**
 * A request without its id, and without how many tokens its pieces are to have: no reply depends on that. A picture is named by
 * its key, whether its pixels came with it or not.
 */
function normalised(body: string): unknown {
  if (body === '') return null
  const { request_id: _, ...asked } = JSON.parse(body)
  delete asked.sampling_params?.stream_interval
  const parts = asked.content_parts?.map(({ uuid }: { uuid: string }) => uuid)
  return parts === undefined ? asked : { ...asked, content_parts: parts }
}

function sentPictures(body: string): number {
  const parts: readonly { url: string | null }[] = JSON.parse(body).content_parts ?? []
  return parts.filter(({ url }) => url !== null).length
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece as Buffer)
  return Buffer.concat(pieces).toString()
}

async function listen(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
