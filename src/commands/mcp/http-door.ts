import { createHash, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import {
  createMcpHandler,
  hostHeaderValidationResponse,
  localhostAllowedHostnames,
  localhostAllowedOrigins,
  type McpServer,
  originValidationResponse,
} from '@modelcontextprotocol/server'
import { ConfigError } from '../../config/config.ts'
import { parseJsonOr } from '../../lib/json/parse-json.ts'
import { openSessions } from './sessions.ts'

const PATH = '/mcp'
/** The server's limit of a request. */
const MOST_BODY_BYTES = 20 * 2 ** 20
/** Long, because a client may write to a connection that was just closed, and does not repeat a POST. */
const IDLE_MS = 72_000

export interface HttpDoor extends AsyncDisposable {
  readonly url: string
}

/**
 * Serves the protocol over streamable HTTP, to programs of this machine that have the key. A web page that reaches this
 * address by DNS rebinding has another Host or Origin, and is rejected.
 * @param port 0 for any free one.
 */
export async function openHttpDoor(create: () => McpServer, key: string, port: number): Promise<HttpDoor> {
  const handler = createMcpHandler(create, { maxRequestBodySize: MOST_BODY_BYTES })
  const sessions = openSessions(create)
  const wanted = digest(`Bearer ${key}`)
  const answer = async (request: Request, ended: AbortSignal): Promise<Response> => {
    const stranger =
      hostHeaderValidationResponse(request, localhostAllowedHostnames()) ??
      originValidationResponse(request, localhostAllowedOrigins())
    if (stranger) return stranger
    if (!timingSafeEqual(digest(request.headers.get('authorization') ?? ''), wanted)) {
      return refusal(401, 'expected the header Authorization: Bearer KEY', { 'www-authenticate': 'Bearer' })
    }
    if (new URL(request.url).pathname !== PATH) return refusal(404, `expected the path ${PATH}`)
    if (request.method !== 'POST') return (await sessions.handle(request, undefined, ended)) ?? handler.fetch(request)
    const text = await textOf(request)
    if (text === null) return refusal(413, `expected at most ${MOST_BODY_BYTES} bytes`)
    const parsedBody = parseJsonOr(text, undefined)
    if (parsedBody === undefined) return refusal(400, 'expected JSON')
    return (await sessions.handle(request, parsedBody, ended)) ?? handler.fetch(request, { parsedBody })
  }
  const server = createServer({ keepAliveTimeout: IDLE_MS }, (request, response) => {
    pass(request, response, answer).catch(() => response.destroy())
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE') throw error
    throw new ConfigError(`--http: port ${port} is in use; name another one, or 0 for any`)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`,
    [Symbol.asyncDispose]: async () => {
      sessions.close()
      await handler.close()
      server.closeAllConnections()
      server.close()
    },
  }
}

async function pass(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  answer: (request: Request, ended: AbortSignal) => Promise<Response>,
): Promise<void> {
  const { method = 'GET', headers } = incoming
  const url = `http://${headers.host ?? 'unknown'}${incoming.url ?? '/'}`
  const left = new AbortController()
  outgoing.once('close', () => left.abort())
  const hasBody = method !== 'GET' && method !== 'HEAD'
  const request = URL.canParse(url)
    ? new Request(url, {
        method,
        headers: new Headers(
          Object.entries(headers).flatMap(([name, value]) => (value ? [[name, String(value)]] : [])),
        ),
        signal: left.signal,
        ...(hasBody ? { body: Readable.toWeb(incoming) as ReadableStream<Uint8Array>, duplex: 'half' } : {}),
      })
    : null
  const response = request === null ? refusal(400, 'expected a Host') : await answer(request, left.signal)
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  if (response.body === null) outgoing.end()
  else await pipeline(Readable.fromWeb(response.body as never), outgoing)
}

/** The body of a request; null when it is larger than allowed. */
async function textOf({ body }: Request): Promise<string | null> {
  const pieces: Uint8Array[] = []
  let length = 0
  for await (const piece of body ?? []) {
    length += piece.length
    // The rest is read and dropped: a client whose connection is closed while it sends does not see the answer.
    if (length <= MOST_BODY_BYTES) pieces.push(piece)
  }
  return length > MOST_BODY_BYTES ? null : Buffer.concat(pieces).toString()
}

function refusal(status: number, message: string, headers: Record<string, string> = {}): Response {
  return Response.json({ error: message }, { status, headers })
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
