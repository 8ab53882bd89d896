import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** Delay before the first probe of a client that has ended its side. Each later delay is twice as long. */
const FIRST_PAUSE_MS = 50
const LONGEST_PAUSE_MS = 15_000
/** The beginning of every response, for any status and any HTTP version of the request. */
const BEGINNING = 'HTTP/1.1 '

/**
 * Answers clients that end their side of the connection after sending their request, as `nc -N` does. A disconnected
 * client looks the same until the server sends something: its machine then resets the connection, and the response closes.
 */
export function answerHalfClosed(app: FastifyInstance): void {
  // Node's types lack it.
  Object.assign(app.server, { httpAllowHalfOpen: true })
  // Each pipelined request adds a listener.
  app.server.on('connection', (socket: Socket) => socket.setMaxListeners(0))
  app.addHook('onRequest', (_request, { raw }, done) => {
    probeHalfClosed(raw, beginningOf(raw))
    done()
  })
}

/** Calls `probe` at intervals once the client has ended its side. A probe sends bytes that do not change the reply. */
export function probeHalfClosed(response: ServerResponse, probe: () => void): void {
  const { socket } = response.req
  let timer: NodeJS.Timeout | null = null
  const begin = (pause = FIRST_PAUSE_MS) => {
    timer = setTimeout(() => {
      if (!response.writableNeedDrain) probe()
      begin(Math.min(2 * pause, LONGEST_PAUSE_MS))
    }, pause)
  }
  const onEnd = () => begin()
  if (socket.readableEnded) begin()
  else socket.once('end', onEnd)
  response.once('close', () => {
    socket.off('end', onEnd)
    if (timer !== null) clearTimeout(timer)
  })
}

/** Probes with the response's first characters, one at a time. Clients would see interim responses. */
function beginningOf(response: ServerResponse & { _header?: string }): () => void {
  const { writeHead } = response
  let sent = 0
  return () => {
    // Pipelined requests get the socket in turn.
    if (response.headersSent || response.socket === null || sent === BEGINNING.length) return
    if (sent === 0) response.writeHead = writeRest
    response.socket.write(BEGINNING[sent]!)
    sent++
  }

  function writeRest(...head: unknown[]): ServerResponse {
    Reflect.apply(writeHead, response, head)
    // Node builds the whole head at once, and sends it with the first bytes of the body.
    response._header = response._header!.slice(sent)
    return response
  }
}
