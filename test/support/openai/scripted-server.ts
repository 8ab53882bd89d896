import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What a server does with one request for a completion. */
export interface Script {
  /** Status of the answer, with `body`; 200 with a stream of `chunks` by default. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: object
  /** JSON of the stream's lines; a text is sent as it is. */
  readonly chunks?: readonly (object | string)[]
  /** Whether the connection breaks, or falls silent, in place of the end of the stream. */
  readonly end?: 'done' | 'without a word' | 'cut' | 'silence'
}

/** A completion as it comes from a server that sends one word at a time. */
export function words(texts: readonly string[], { usage = {}, reason = 'stop' } = {}): Script {
  return {
    chunks: [
      { choices: [{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }] },
      ...texts.map((content) => ({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })),
      { choices: [{ index: 0, delta: {}, finish_reason: reason }] },
      { choices: [], usage: { prompt_tokens: 17, completion_tokens: 5, ...usage } },
    ],
  }
}

const ANSWERED = ['/v1/chat/completions', '/v1/embeddings', '/v1/rerank']

/** An OpenAI-compatible server that does as it is told. */
export class ScriptedServer implements AsyncDisposable {
  readonly #server: Server
  readonly url: string
  models: readonly object[] = [{ id: 'service-mk1.5' }]
  /** Status of `GET /health`; 404 as from a server that has none. */
  health = 404
  /** Whether a connection is closed when it is asked for the health a second time. */
  closesKept = false
  /** Connections that were closed so. */
  closed = 0
  readonly #known = new WeakSet<object>()
  /** For the next requests, one each; then the last one stays. */
  scripts: Script[] = [words(['Hello', ' there'])]
  /** Bodies of the requests for completions. */
  readonly asked: Record<string, unknown>[] = []
  /** Streams whose reader has left before their end. */
  abandoned = 0

  private constructor(server: Server, url: string) {
    this.#server = server
    this.url = url
  }

  static async start(): Promise<ScriptedServer> {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const scripted = new ScriptedServer(server, `http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    server.on('request', (request, response) => void scripted.#answer(request, response))
    return scripted
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const pieces: Buffer[] = []
    for await (const piece of request) pieces.push(piece as Buffer)
    const isKept = this.#known.has(request.socket)
    this.#known.add(request.socket)
    if (this.closesKept && isKept && request.url === '/health') {
      this.closed++
      request.socket.destroy()
    } else if (request.url === '/v1/models') response.end(JSON.stringify({ object: 'list', data: this.models }))
    else if (request.url === '/health') response.writeHead(this.health).end()
    else if (!ANSWERED.includes(request.url!)) response.writeHead(404).end()
    else {
      this.asked.push(JSON.parse(Buffer.concat(pieces).toString()))
      this.#play(this.scripts.length > 1 ? this.scripts.shift()! : this.scripts[0]!, response)
    }
  }

  #play({ status = 200, headers, body, chunks = [], end = 'done' }: Script, response: ServerResponse): void {
    if (body !== undefined) {
      response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
      return
    }
    response.once('close', () => {
      if (!response.writableFinished) this.abandoned++
    })
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const chunk of chunks) response.write(typeof chunk === 'string' ? chunk : `data: ${JSON.stringify(chunk)}\n\n`)
    if (end === 'done') response.end('data: [DONE]\n\n')
    else if (end === 'without a word') response.end()
    else if (end === 'cut') setImmediate(() => response.destroy())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
