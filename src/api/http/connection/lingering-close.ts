import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** Maximum bytes of a rejected body to read and drop: more than any upload may have. */
const MAX_BYTES = 256 * 2 ** 20
/** The time limit of a JSON body. */
const TOTAL_MS = 120_000
const SILENCE_MS = 5_000
const CHECK_MS = 250

export interface LingeringOptions {
  /** How long a client may send nothing in the middle of a rejected body; 5 s by default. */
  readonly lingerSilenceMs?: number | undefined
}

/**
 * Lets a client that is still sending a body read why it was rejected. Many clients send the whole body before they
 * read anything, and closing a socket with unread bytes resets it: they would see a broken connection and no error.
 * So the rest of the body is read and dropped, within limits, before the connection is closed. nginx does the same.
 */
export function lingerBeforeClose(app: FastifyInstance, { lingerSilenceMs = SILENCE_MS }: LingeringOptions): void {
  app.addHook('onRequest', ({ raw: request }, { raw: response }, done) => {
    // Runs before Node's own listener, which closes the connection.
    if (!request.complete) {
      response.prependOnceListener('finish', () => {
        // Do not wait for the rest of a request that timed out.
        if (!request.complete && response.statusCode !== 408) linger(request, lingerSilenceMs)
      })
    }
    done()
  })
}

function linger(request: IncomingMessage, silenceMs: number): void {
  const { socket } = request
  const closing = holdOpen(socket)
  request.resume()
  const started = performance.now()
  const before = socket.bytesRead
  let [last, changed] = [before, started]
  const check = setInterval(
    () => {
      const now = performance.now()
      if (socket.bytesRead !== last) [last, changed] = [socket.bytesRead, now]
      if (last - before > MAX_BYTES || now - changed > silenceMs || now - started > TOTAL_MS) socket.destroy()
    },
    Math.min(CHECK_MS, silenceMs / 2),
  )
  const stop = () => clearInterval(check)
  request.once('end', () => {
    stop()
    // The connection may stay open and carry more requests.
    socket.off('close', stop)
    closing.release()
  })
  socket.once('close', stop)
}

/** Makes ending the connection close only the sending half, until it is released. */
function holdOpen(socket: Socket): { release(): void } {
  let ended = false
  socket.destroySoon = () => {
    ended = true
    socket.end()
  }
  return {
    release() {
      // Restores the prototype's method.
      Reflect.deleteProperty(socket, 'destroySoon')
      if (ended) socket.destroySoon()
    },
  }
}
