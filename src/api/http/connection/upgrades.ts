import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type WebSocket, WebSocketServer } from 'ws'
import { invalidRequest } from '../../../lib/errors/errors.ts'
import { BODY_LIMIT_BYTES } from '../body/body-reader.ts'
import { ClientDisconnected } from './abort-signal.ts'

/** The subprotocol that clients name beside their key. A browser refuses an answer with none. */
const SUBPROTOCOL = 'lookout'
/** How long a client may take to confirm that the socket is closed. */
const CLOSE_MS = 2_000

/** An upgraded connection. */
export interface Upgraded {
  readonly webSocket: WebSocket
  readonly connection: Duplex
}

/** The response to a request that offers to upgrade its connection. */
class UpgradeResponse extends ServerResponse {
  /** The first bytes that follow the request. */
  readonly first: Buffer

  constructor(request: IncomingMessage, first: Buffer) {
    super(request)
    this.first = first
  }
}

/** Whether Node hands the connection over. Other offers, such as to continue in HTTP/2, are ignored. */
export function offersWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket'
}

/** Routes requests that offer to upgrade like all others, so that the same checks, limits and log apply to them. */
export function acceptUpgrades(app: FastifyInstance): void {
  const route = (request: IncomingMessage, connection: Duplex, first: Buffer) => {
    connection.on('error', () => connection.destroy())
    const response = new UpgradeResponse(request, first)
    // Node reads no further request here.
    response.shouldKeepAlive = false
    response.once('finish', () => connection.end(() => connection.destroy()))
    try {
      response.assignSocket(connection as Socket)
    } catch {
      // The response to an earlier request is still being sent.
      connection.destroy()
      return
    }
    app.routing(request, response)
  }
  // Node closes the connection of a request for a tunnel, and would not answer it.
  app.server.on('connect', route)
  // Node before 24.9 cannot ignore other offers: their requests would lose their bodies.
  if ('shouldUpgradeCallback' in app.server) app.server.on('upgrade', route)
}

/** Completes the handshake. @throws ApiError 426 without an offer to upgrade, 400 for an invalid one. */
export function upgrade(request: FastifyRequest, reply: FastifyReply): Upgraded {
  const { raw } = reply
  if (!(raw instanceof UpgradeResponse)) {
    reply.headers({ connection: 'upgrade', upgrade: 'websocket' })
    throw invalidRequest('GET takes WebSockets only on this path', null, { status: 426 })
  }
  const server = new WebSocketServer({
    ...{ noServer: true, clientTracking: false, perMessageDeflate: false },
    ...{ maxPayload: BODY_LIMIT_BYTES, closeTimeout: CLOSE_MS },
    handleProtocols: (offered) => offered.has(SUBPROTOCOL) && SUBPROTOCOL,
  })
  server.on('headers', (lines) => {
    for (const [name, value] of Object.entries(reply.getHeaders())) lines.push(`${name}: ${value}`)
  })
  server.on('wsClientError', ({ message }) => {
    throw invalidRequest(`Invalid WebSocket handshake: ${message}`, null)
  })
  const connection = raw.socket!
  const opened: WebSocket[] = []
  server.handleUpgrade(request.raw, connection, raw.first, (webSocket) => opened.push(webSocket))
  const [webSocket] = opened
  if (webSocket === undefined) throw new ClientDisconnected('The client closed the connection')
  reply.hijack()
  // The log, the metrics and probes of the connection need to know that the head has been sent.
  const sent = { statusCode: 101, headersSent: true, writableFinished: true }
  for (const [name, value] of Object.entries(sent)) Object.defineProperty(raw, name, { value })
  return { webSocket, connection }
}
